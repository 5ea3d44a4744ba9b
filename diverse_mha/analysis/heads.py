"""Head states (attention weights, outputs and others) of every layer and head, for any sentences.

Other libraries call this an activation cache, or ``output_attentions``::

    model = diverse_mha.load("checkpoint_best.pt", "data/mine/bin")
    run = model.run(["Ein Haus .", "Zwei Häuser ."])
    run.heads["cross"].weights[0]  # layer 1: (B, H, T, S)
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from diverse_mha.analysis.ablation import head_numbers
from diverse_mha.analysis.similarity import Selection, real_rows
from diverse_mha.analysis.view import take_sentence
from diverse_mha.attention import STATE_NAMES, HeadStates, check_state_names
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files
from diverse_mha.corpora.prepared import preparation, read_side
from diverse_mha.evaluation.models import Loaded, open_models, translation_batch
from diverse_mha.evaluation.search import BeamSearch

Sentences = Sequence[str]


class ComponentHeads(NamedTuple):
    """The head states of one component, as lists with a tensor for each layer.

    B sentences, H heads, T queries, S keys, D = model width / H. States that were not requested are
    None. The tensors have no gradient.
    """

    queries: list[Tensor] | None  # (B, H, T, D), not scaled
    keys: list[Tensor] | None  # (B, H, S, D)
    values: list[Tensor] | None  # (B, H, S, D)
    logits: list[Tensor] | None  # (B, H, T, S), before the mask
    weights: list[Tensor] | None  # (B, H, T, S), rows sum to 1
    outputs: list[Tensor] | None  # (B, H, T, D), weights @ values
    query_padding_mask: Tensor  # (B, T) bool, True = padding
    key_padding_mask: Tensor  # (B, S) bool, True = padding


class Run(NamedTuple):
    """Head states and tokens of a batch of sentences.

    Query t of the decoder and of the encoder-decoder attention predicts token t of the target,
    ``target_tokens[b][t]``. Query t has read the target up to token t - 1, and query 0 only </s>.
    """

    heads: dict[str, ComponentHeads]  # component (encoder, cross, decoder) -> states
    source_tokens: list[list[str]]  # subwords of each source sentence; a pair has two rows
    target_tokens: list[list[str]] | None  # predicted subwords; None for a classifier

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all states and tokens as arrays for ``numpy.savez``.

        ``cross.weights.1`` holds the weights of layer 1. Floating-point arrays are float32; tokens
        are strings, padded with "".
        """
        arrays = {}
        for component, heads in self.heads.items():
            for name, value in heads._asdict().items():
                if isinstance(value, Tensor):
                    arrays[f"{component}.{name}"] = value.numpy()
                for number, layer in enumerate(() if value is None else value, 1):
                    if not isinstance(value, Tensor):
                        arrays[f"{component}.{name}.{number}"] = layer.float().numpy()
        for name in ("source_tokens", "target_tokens"):
            if (tokens := getattr(self, name)) is not None:
                longest = max(map(len, tokens))
                arrays[name] = np.array([row + [""] * (longest - len(row)) for row in tokens])
        return arrays


class HeadModel:
    """A loaded model whose head states can be read; made by :func:`load`.

    Attributes:
        loaded: the model, its task and data.
    """

    def __init__(self, loaded: Loaded):
        self.loaded = loaded

    @torch.no_grad()
    def run(
        self,
        sentences: Sentences | Sequence[tuple[str, str]],
        target: Sentences | None = None,
        *,
        states: tuple[str, ...] = STATE_NAMES,
        beam: int = 5,
    ) -> Run:
        """Run sentences through the model as one batch.

        Args:
            sentences: plain text if data-prep made the data; else tokens separated by spaces, as in
                the files that fairseq-preprocess read. For a classifier of pairs, tuples of two.
            target: translations to force, in the same form. None: the model translates by beam
                search. Only for translation models.
            states: names of ``HeadStates`` to keep; fewer need less memory.
            beam: beam size of the model's own translations.

        Raises:
            UserError: there is no sentence, a sentence is empty or too long, or ``target`` does not
                fit.
        """
        if isinstance(sentences, str) or not sentences:
            raise UserError("sentences: give a list of one or more sentences")
        if isinstance(target, str):
            raise UserError("target: give a list of translations, one for each sentence")
        sample, source, predicted = self._sample(sentences, target, beam)
        recorded = self.loaded.states(sample, check_state_names(states))
        read = {"source": source, "target": predicted if "encoder" in recorded else source}
        heads = {}
        for component, layers in recorded.items():
            if layers:  # layer drop may leave no layer
                queries = read["source" if component == "encoder" else "target"]
                keys = read["target" if component == "decoder" else "source"]
                heads[component] = _collect(layers, _padding(queries), _padding(keys))
        symbols = [self._symbols(side, rows) for side, rows in enumerate((source, predicted))]
        return Run(heads, *symbols)

    def view(self, lines: Sentences, selection: Selection) -> list[dict]:
        """Return the report's data on each line, see ``view.take_sentence``.

        Args:
            lines: sentences as in :meth:`run`. A tab separates a sentence from a second text: a
                translation to force or, for a classifier of pairs, the second sentence. A
                translation model translates lines without a tab.
            selection: components and layers.
        """
        shown = []
        for number, line in enumerate(lines):
            first, tab, second = line.partition("\t")
            pair = getattr(self.loaded.task, "sentences", 1) > 1
            target = [second] if tab and not pair else None
            sample, _, _ = self._sample([(first, second) if pair else first], target, beam=5)
            sample["id"] = torch.tensor([number])
            states = self.loaded.states(sample, ("weights",))
            numbers = head_numbers(self.loaded.model)
            shown.append(take_sentence(self.loaded.task, sample, 0, states, selection, numbers))
        return shown

    def _sample(
        self, sentences, target, beam: int
    ) -> tuple[dict, list[Tensor], list[Tensor] | None]:
        """Return fairseq's batch on the model's device, the source and the predicted tokens."""
        sample, source, predicted = self._make_sample(sentences, target, beam)
        return self.loaded.on_device(sample), source, predicted

    def _make_sample(self, sentences, target, beam: int):
        task = self.loaded.task
        if hasattr(task, "dictionary") and not hasattr(task, "src_dict"):
            if target is not None:
                raise UserError("target: is for translation models; leave it out")
            classifies = hasattr(task, "labels")
            rows = self._classified(sentences) if classifies else self._encode(0, sentences)
            read = rows if classifies else [row.roll(1) for row in rows]  # eos moves to the front
            sample = {"net_input": _batch(read, task.dictionary.pad())}
            return sample, read, None if classifies else rows
        source = self._encode(0, sentences)
        if target is None:
            predicted = self._translate(_batch(source, task.source_dictionary.pad()), beam)
        elif len(target) != len(sentences):
            raise UserError(
                f"target: has {len(target)} texts for {len(sentences)} sentences; give one for each"
            )
        else:
            predicted = self._encode(1, target)
        return translation_batch(task, source, predicted), source, predicted

    def _classified(self, sentences) -> list[Tensor]:
        """Return the tokens of sentences to classify; sentences of a pair are adjacent rows."""
        count = self.loaded.task.sentences
        if count > 1 and any(isinstance(pair, str) or len(pair) != count for pair in sentences):
            raise UserError(f"sentences: the model classifies pairs; give tuples of {count}")
        return self._encode(0, [s for pair in sentences for s in pair] if count > 1 else sentences)

    def _encode(self, side: int, sentences: Sentences) -> list[Tensor]:
        """Return the tokens of the source (side 0) or target sentences; each ends with eos."""
        dictionary, encode = self._dictionary(side), self._encoder(side)
        longest = self.loaded.longest
        longest = longest[side] if isinstance(longest, tuple) else longest
        rows = []
        for number, sentence in enumerate(sentences, 1):
            words = encode(sentence).split()
            if not words:
                raise UserError(f"sentence {number}: is empty; leave it out")
            row = dictionary.encode_line(" ".join(words), append_eos=True, add_if_not_exist=False)
            if len(row) > longest:
                raise UserError(
                    f"sentence {number}: {len(row):,} subwords, but the model reads at most "
                    f"{longest:,}; shorten it"
                )
            rows.append(row.long())
        return rows

    def _encoder(self, side: int) -> Callable[[str], str]:
        data, cfg = Path(self.loaded.options.data), self.loaded.options
        if not hasattr(cfg, "source_lang") or not preparation(data).method:
            return lambda line: line
        return read_side(data, (cfg.source_lang, cfg.target_lang)[side]).encode()

    def _dictionary(self, side: int):
        task = self.loaded.task
        return (task.source_dictionary, task.target_dictionary or task.source_dictionary)[side]

    def _symbols(self, side: int, rows: list[Tensor] | None) -> list[list[str]] | None:
        if rows is None:
            return None
        return [[self._dictionary(side)[int(token)] for token in row] for row in rows]

    def _translate(self, net_input: dict, beam: int) -> list[Tensor]:
        """Return the model's own translations; each ends with eos."""
        cfg = SimpleNamespace(generation=GenerationConfig(beam=beam))
        search = BeamSearch(self.loaded, cfg, fast=False)
        numbers = torch.arange(len(net_input["src_tokens"]))
        sample = self.loaded.on_device({"id": numbers, "net_input": net_input})
        return [tokens.long() for _, tokens in search.translate([sample])]


def _batch(rows: list[Tensor], pad: int) -> dict:
    """Return source tokens, padded on the right, and their lengths."""
    return {
        "src_tokens": data_utils.collate_tokens(rows, pad),
        "src_lengths": torch.tensor([len(row) for row in rows]),
    }


def _padding(rows: list[Tensor]) -> Tensor:
    """Return the padding mask of rows that a batch pads on the right."""
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max())) >= lengths[:, None]


def _collect(layers: list[HeadStates], queries: Tensor, keys: Tensor) -> ComponentHeads:
    """Return the states of all layers on the CPU; ``queries`` and ``keys`` are padding masks."""
    states = {
        name: None if getattr(layers[0], name) is None else [getattr(x, name).cpu() for x in layers]
        for name in STATE_NAMES
    }
    return ComponentHeads(**states, query_padding_mask=queries, key_padding_mask=keys)


def load(path: str | Path, data: str | Path, *, cpu: bool = False) -> HeadModel:
    """Load a checkpoint as a :class:`HeadModel`.

    Args:
        path: a checkpoint of this package, or of fairseq's ``transformer`` or ``transformer_lm``.
        data: folder with the dictionaries that the model was trained with.
        cpu: do not use a GPU.
    """
    return HeadModel(open_models(str(path), data, cpu=cpu, heads=True))


def is_heads_file(path: Path) -> bool:
    """Return True if :func:`save_heads` wrote the file."""
    try:
        with np.load(path) as arrays:
            return "source_tokens" in arrays
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        return False


def save_heads(file: Path, loaded: Loaded, lines: list[str]) -> None:
    """Write the head states of sentences; a tab separates a source from its target."""
    pairs = [line.split("\t", 1) for line in lines]
    if len({len(pair) for pair in pairs}) > 1:
        raise UserError("--sentences: some lines have a tab, others not; give one in all or none")
    both = len(pairs[0]) == 2
    if getattr(loaded.task, "sentences", 1) > 1:
        run = HeadModel(loaded).run([tuple(pair) for pair in pairs])
    else:
        targets = [pair[1] for pair in pairs] if both else None
        run = HeadModel(loaded).run([pair[0] for pair in pairs], targets)
    content = io.BytesIO()
    np.savez_compressed(content, **run.arrays())
    write_files({file: content.getvalue()})


@torch.no_grad()
def mean_outputs(path: str | Path, data: str | Path, subset: str = "valid") -> Tensor:
    """Return the mean output of each encoder head over the layers and tokens of a split, (H, D).

    Li et al. 2021, section 4.1.2.3. For a language model, the decoder's heads are used.
    """
    loaded = open_models(str(path), data, heads=True)
    total, count = 0.0, 0
    for sample in loaded.batches(subset):
        recorded = loaded.states(sample, ("outputs",))
        layers = recorded.get("encoder") or recorded["decoder"]
        for states in layers:
            rows = real_rows(states).double().cpu()  # (N, H D)
            total, count = total + rows.sum(dim=0), count + len(rows)
    heads = layers[0].outputs.size(1)
    return (total / count).unflatten(0, (heads, -1))


def encoder_attention(
    path: str | Path, data: str | Path, words: range, subset: str = "valid"
) -> tuple[list[str], int, np.ndarray]:
    """Return the attention of one subword in the encoder's last layer.

    The sentence is the first of the split whose number of subwords, without eos, is in ``words``.
    The subword is the longest of this sentence.

    Returns:
        The sentence's subwords, the index of the attending subword, and its weights (H, S).
    """
    model = load(path, data)
    task = model.loaded.task
    task.load_dataset(subset)
    dataset, dictionary = task.dataset(subset), task.source_dictionary
    for number in range(len(dataset)):
        tokens = [dictionary[int(n)] for n in dataset[number]["source"]][:-1]
        if len(tokens) in words:
            break
    else:
        raise UserError(f"{data}: {subset} has no sentence of {words[0]} to {words[-1]} subwords")
    tokens.append(dictionary.eos_word)
    query = max(range(len(tokens) - 1), key=lambda n: len(tokens[n].strip("@▁")))
    sample = {"net_input": _batch([dataset[number]["source"].long()], dictionary.pad())}
    sample["net_input"]["prev_output_tokens"] = torch.tensor([[task.target_dictionary.eos()]])
    sample = model.loaded.on_device(sample)
    layers = model.loaded.states(sample, ("weights",))["encoder"]
    return tokens, query, layers[-1].weights[0, :, query].float().cpu().numpy()
