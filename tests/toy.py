"""Tiny dictionaries, batches and models for tests."""

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary, indexed_dataset
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator

import diverse_mha

diverse_mha.register()

SMALL = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {
        "embed_dim": 16,
        "ffn_embed_dim": 24,
        "layers": 2,
        "attention_heads": 4,
    }.items()
}


def dictionary_of(words) -> Dictionary:
    """Return a dictionary of fairseq's four special tokens (padding 1, end 2) and these words."""
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


def toy_dictionary(words: int = 12) -> Dictionary:
    """Return a dictionary whose words are the numbers from 0."""
    return dictionary_of(map(str, range(words)))


def write_split(path, dictionary: Dictionary, lines) -> None:
    """Binarise lines, given as text or as tensors, as fairseq-preprocess does."""
    builder = indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        if isinstance(line, str):
            line = dictionary.encode_line(line, add_if_not_exist=False).long()
        builder.add_item(line)
    builder.finalize(f"{path}.idx")


def toy_task() -> SimpleNamespace:
    """Return a stand-in for a task with the attributes that models and criterions read."""
    dictionary = toy_dictionary()
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)


def build_ours(arch: str = "transformer_disagree", seed: int = 1, **options):
    """Build one of our models without dropout, as Hydra would; options override SMALL."""
    config = MODEL_DATACLASS_REGISTRY[arch](**{**SMALL, "dropout": 0.0, **options})
    torch.manual_seed(seed)
    return MODEL_REGISTRY[arch].build_model(config, toy_task())


def build_stock(seed: int = 1, **options):
    """Build fairseq's own ``transformer`` with the same shape."""
    torch.manual_seed(seed)
    args = Namespace(**{**SMALL, "dropout": 0.0, **options})
    return TransformerModel.build_model(args, toy_task())


def toy_batch(
    source_lengths=(5, 3, 4), target_lengths=(4, 6, 2), seed: int = 3, extra_padding: int = 0
) -> dict:
    """Return a batch as from fairseq's collater: sources are padded left, targets right.

    ``extra_padding``: number of padding columns added to sources and targets.
    """
    generator = torch.Generator().manual_seed(seed)

    def sentences(lengths):
        return [
            torch.cat([torch.randint(4, 16, (n - 1,), generator=generator), torch.tensor([2])])
            for n in lengths
        ]

    def padded(rows, left):
        width = max(map(len, rows)) + extra_padding
        out = torch.full((len(rows), width), 1)
        for row, tokens in zip(out, rows, strict=True):
            row[width - len(tokens) :] = tokens if left else row[width - len(tokens) :]
            if not left:
                row[: len(tokens)] = tokens
        return out

    target = sentences(target_lengths)
    shifted = [torch.cat([t[-1:], t[:-1]]) for t in target]
    return {
        "net_input": {
            "src_tokens": padded(sentences(source_lengths), left=True),
            "src_lengths": torch.tensor(source_lengths),
            "prev_output_tokens": padded(shifted, left=False),
        },
        "target": padded(target, left=False),
        "ntokens": sum(target_lengths),
        "nsentences": len(target_lengths),
    }


def log_probs(model, batch: dict) -> torch.Tensor:
    """Return log-probabilities (B, T, V) of a full forward pass."""
    return model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)


def step_by_step(model, batch: dict) -> torch.Tensor:
    """Return log-probabilities (B, T, V) of incremental decoding of the same targets."""
    encoder_out = model.encoder(batch["net_input"]["src_tokens"])
    tokens = batch["net_input"]["prev_output_tokens"]
    state, steps = {}, []
    for length in range(1, tokens.size(1) + 1):
        out = model.decoder(tokens[:, :length], encoder_out=encoder_out, incremental_state=state)
        steps.append(model.get_normalized_probs(out, log_probs=True))
    return torch.cat(steps, dim=1)


def beam_search(model, batch: dict, beam: int = 3) -> list:
    """Return the hypotheses of fairseq's beam search for each sentence, best first."""
    generator = SequenceGenerator([model], toy_dictionary(), beam_size=beam, max_len_b=8)
    return generator.generate([model], {"net_input": dict(batch["net_input"])})


def check_beam_scores(model, batch: dict) -> None:
    """Assert that scores of beam search equal those of a full forward pass."""
    for sentence, hypos in enumerate(beam_search(model, batch)):
        for hypo in hypos:
            tokens = hypo["tokens"]
            one = {
                "net_input": {
                    "src_tokens": batch["net_input"]["src_tokens"][sentence : sentence + 1],
                    "src_lengths": batch["net_input"]["src_lengths"][sentence : sentence + 1],
                    "prev_output_tokens": torch.cat([tokens[-1:], tokens[:-1]])[None],
                }
            }
            scores = log_probs(model, one)[0].gather(1, tokens[:, None])[:, 0]
            torch.testing.assert_close(hypo["positional_scores"], scores, rtol=0, atol=1e-5)
