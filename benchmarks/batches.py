"""Synthetic training batches with realistic lengths and padding."""

from argparse import Namespace

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.data.language_pair_dataset import collate

from benchmarks.shapes import LanguageModelShape, Shape

POOL = 20_000  # number of sentence pairs from which batches are made
LONGEST = 256  # largest number of tokens in a sentence
_SPREAD = 0.5  # standard deviation of log(sentence length), with a long right tail as in corpora
_SPREAD_BETWEEN = 0.15  # standard deviation of log(target length / source length)


def stand_in_task(vocabulary: int) -> Namespace:
    """Return the attributes of a task that models and criterions read: here one dictionary.

    ``vocabulary`` is its size with fairseq's four special tokens, also in the functions below.
    """
    dictionary = Dictionary()
    for word in range(vocabulary - len(dictionary)):
        dictionary.add_symbol(str(word))
    return Namespace(
        source_dictionary=dictionary, target_dictionary=dictionary, dictionary=dictionary
    )


def draw_lengths(mean: float, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the source and target lengths of ``POOL`` sentence pairs: (POOL, 2), 2 to ``longest``.

    Lengths are log-normal and correlated between the sides. ``mean`` is the mean length of either
    side, in tokens with the end-of-sentence token. Longer sentences are cut to ``longest``.
    """
    centre = np.log(mean) - _SPREAD**2 / 2
    source = rng.normal(centre, _SPREAD, POOL)
    target = source + rng.normal(-(_SPREAD_BETWEEN**2) / 2, _SPREAD_BETWEEN, POOL)
    lengths = np.exp(np.stack([source, target], axis=1)).round().astype(np.int64)
    return lengths.clip(2, longest)


def make_batches(
    count: int, vocabulary: int, batch_tokens: int, mean_length: float, seed: int
) -> list[dict]:
    """Make ``count`` batches of random words as fairseq's translation task does from a corpus.

    Pairs are sorted by length, and fairseq's functions cut them into batches. ``count`` of the
    batches are drawn at random, with replacement, and fairseq collates them. A batch has at most
    ``batch_tokens`` tokens on either side, padding included, and is on the CPU. The same arguments
    give the same batches.
    """
    rng = np.random.default_rng(seed)
    lengths = draw_lengths(mean_length, min(batch_tokens, LONGEST), rng)
    order = np.lexsort((lengths[:, 1], lengths[:, 0]))  # by source, then target length
    cut = data_utils.batch_by_size(
        order,
        num_tokens_fn=lambda pair: int(lengths[pair].max()),
        num_tokens_vec=lengths[order].max(axis=1),  # in the order of the first argument
        max_tokens=batch_tokens,
        required_batch_size_multiple=8,
    )
    dictionary = Dictionary()
    batches = []
    for chosen in rng.integers(len(cut), size=count):
        samples = []
        for pair in cut[chosen]:
            source, target = (
                torch.from_numpy(rng.integers(dictionary.nspecial, vocabulary, size=length))
                for length in lengths[pair]
            )
            source[-1] = target[-1] = dictionary.eos()
            samples.append({"id": int(pair), "source": source, "target": target})
        batches.append(collate(samples, dictionary.pad(), dictionary.eos()))
    return batches


def make_blocks(
    count: int, vocabulary: int, batch_tokens: int, length: int, seed: int
) -> list[dict]:
    """Make batches of random words as fairseq's language-modelling task does from running text.

    Every block has ``length`` tokens and no padding. Word frequencies follow Zipf's law, because
    the cost of an adaptive softmax depends on them. The rest is as in :func:`make_batches`.
    """
    rng = np.random.default_rng(seed)
    special = Dictionary().nspecial
    weights = 1 / np.arange(1, vocabulary - special + 1)  # Zipf's law
    rows = max(1, batch_tokens // length)
    batches = []
    for _ in range(count):
        drawn = rng.choice(len(weights), size=(rows, length + 1), p=weights / weights.sum())
        text = torch.from_numpy(drawn + special)
        lengths = torch.full((rows,), length)
        batches.append(
            {
                "id": torch.arange(rows),
                "nsentences": rows,
                "ntokens": rows * length,
                "net_input": {"src_tokens": text[:, :-1].clone(), "src_lengths": lengths},
                "target": text[:, 1:].clone(),
            }
        )
    return batches


def batches_for(
    shape: Shape, count: int, batch_tokens: int, mean_length: float, seed: int
) -> list[dict]:
    """Make batches for a shape's models; see ``make_batches`` and ``make_blocks``."""
    if isinstance(shape, LanguageModelShape):
        return make_blocks(count, shape.vocabulary, batch_tokens, int(mean_length), seed)
    return make_batches(count, shape.vocabulary, batch_tokens, mean_length, seed)


def to_device(batch: dict, device: torch.device) -> dict:
    """Copy a batch, with everything nested in it, to a device."""
    return utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
