"""Head states (attention weights, outputs and others) of every layer and head, for any sentences.

Other libraries call this an activation cache, or ``output_attentions``::

    model = diverse_mha.load("checkpoint_best.pt", "data/mine/bin")
    run = model.run(["Ein Haus .", "Zwei Häuser ."])
    run.heads["cross"].weights[0]  # layer 1: (B, H, T, S)

A folder of transformers needs no data: ``diverse_mha.load("models/marian")``.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn

from diverse_mha.analysis.results import Sentence
from diverse_mha.analysis.similarity import real_rows
from diverse_mha.analysis.view import take_sentence
from diverse_mha.attention import STATE_NAMES, HeadStates, check_state_names
from diverse_mha.attention.sites import Sentences, Site
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files
from diverse_mha.evaluation.opener import Source, is_folder, open_heads
from diverse_mha.evaluation.protocol import AnyAdapter

if TYPE_CHECKING:  # each library is imported for its own models only
    from transformers import PreTrainedTokenizerBase

    from diverse_mha.evaluation.models import Loaded

#: A tensor for each layer; None for states that were not requested.
Layers = TypeVar("Layers", covariant=True)


class ComponentHeads(NamedTuple, Generic[Layers]):
    """The head states of one component, as lists with a tensor for each layer.

    B sentences, H heads, T queries, S keys, D = model width / H. States that were not requested are
    None. The tensors have no gradient.
    """

    queries: Layers  # (B, H, T, D), not scaled
    keys: Layers  # (B, H, S, D)
    values: Layers  # (B, H, S, D)
    logits: Layers  # (B, H, T, S), before the mask
    weights: Layers  # (B, H, T, S), rows sum to 1
    outputs: Layers  # (B, H, T, D), weights @ values
    query_padding_mask: Tensor  # (B, T) bool, True = padding
    key_padding_mask: Tensor  # (B, S) bool, True = padding


class Run(NamedTuple, Generic[Layers]):
    """Head states and tokens of a batch of sentences.

    Query t of the decoder and of the encoder-decoder attention predicts token t of the target,
    ``target_tokens[b][t]``. Query t has read the target up to token t - 1, and query 0 only </s>.
    """

    heads: Mapping[str, ComponentHeads[Layers]]  # component (encoder, cross, decoder) -> states
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
        adapter: the model and its data.
    """

    def __init__(self, adapter: AnyAdapter):
        self.adapter = adapter

    @property
    def loaded(self) -> "Loaded":
        """A checkpoint's model, task and data, as ``evaluation.models.Loaded``.

        Raises:
            AttributeError: the model is of transformers.
        """
        from diverse_mha.evaluation.adapter import FairseqAdapter

        if not isinstance(self.adapter, FairseqAdapter):
            raise AttributeError("loaded: a model of transformers has no task and data")
        return self.adapter.loaded

    @overload
    def run(
        self,
        sentences: Sentences,
        target: Sequence[str] | None = None,
        *,
        beam: int = 5,
    ) -> Run[list[Tensor]]: ...

    @overload
    def run(
        self,
        sentences: Sentences,
        target: Sequence[str] | None = None,
        *,
        states: tuple[str, ...],
        beam: int = 5,
    ) -> Run[list[Tensor] | None]: ...

    @torch.no_grad()
    def run(
        self,
        sentences: Sentences,
        target: Sequence[str] | None = None,
        *,
        states: tuple[str, ...] = STATE_NAMES,
        beam: int = 5,
    ) -> Run[list[Tensor] | None]:
        """Run sentences through the model as one batch.

        Args:
            sentences: plain text for a model of transformers, and if data-prep made the data; else
                tokens separated by spaces, as in the files that fairseq-preprocess read. For a
                classifier of pairs, tuples of two.
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
        batch, source, predicted = self.adapter.encode(sentences, target, beam)
        recorded = self.adapter.states(batch, check_state_names(states))
        read = {"source": source, "target": predicted if "encoder" in recorded else source}
        heads = {}
        for component, layers in recorded.items():
            if layers:  # layer drop may leave no layer
                queries = read["source" if component == "encoder" else "target"]
                keys = read["target" if component == "decoder" else "source"]
                heads[component] = _collect(layers, _padding(queries), _padding(keys))
        targets = None if predicted is None else self.adapter.symbols(1, predicted)
        return Run(heads, self.adapter.symbols(0, source), targets)

    def view(self, lines: Sequence[str], sites: Sequence[Site]) -> list[Sentence]:
        """Return the report's data on each line, see ``view.take_sentence``.

        Args:
            lines: sentences as in :meth:`run`. A tab separates a sentence from a second text: a
                translation to force or, for a classifier of pairs, the second sentence. A
                translation model translates lines without a tab.
            sites: the modules to show.
        """
        shown: list[Sentence] = []
        for number, line in enumerate(lines):
            first, tab, second = line.partition("\t")
            pair = self.adapter.rows > 1
            target = [second] if tab and not pair else None
            batch = self.adapter.encode(
                [(first, second)] if pair else [first], target, beam=5
            ).batch
            states = self.adapter.states(batch, ("weights",))
            taken = take_sentence(self.adapter, batch, 0, states, sites)
            shown.append({"number": number, "components": taken["components"]})
        return shown


def _padding(rows: list[Tensor]) -> Tensor:
    """Return the padding mask of rows that a batch pads on the right."""
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max())) >= lengths[:, None]


def _collect(
    layers: list[HeadStates], queries: Tensor, keys: Tensor
) -> ComponentHeads[list[Tensor] | None]:
    """Return the states of all layers on the CPU; ``queries`` and ``keys`` are padding masks."""
    states = {
        name: None if getattr(layers[0], name) is None else [getattr(x, name).cpu() for x in layers]
        for name in STATE_NAMES
    }
    return ComponentHeads(**states, query_padding_mask=queries, key_padding_mask=keys)


def load(
    path: str | Path | nn.Module,
    data: str | Path | None = None,
    *,
    cpu: bool = False,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
) -> HeadModel:
    """Load a model as a :class:`HeadModel`.

    Args:
        path: a checkpoint of this package, or of fairseq's ``transformer`` or ``transformer_lm``;
            without ``data``, a folder of transformers, or one of its models.
        data: folder with the dictionaries that a checkpoint was trained with.
        cpu: do not use a GPU.
        tokenizer: the tokenizer of a model of transformers that is given as an object.

    Raises:
        UserError: a checkpoint without ``data``, or a model whose attention cannot be observed.
    """
    if data is None and isinstance(path, str | Path) and not is_folder(path):
        raise UserError(f"{path}: is not a folder of transformers; a checkpoint needs data")
    source = Source("", {}) if data is None else data
    (adapter,) = open_heads([path], source, cpu=cpu, tokenizer=tokenizer)
    return HeadModel(adapter)


def is_heads_file(path: Path) -> bool:
    """Return True if :func:`save_heads` wrote the file."""
    try:
        with np.load(path) as arrays:
            return "source_tokens" in arrays
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        return False


def save_heads(file: Path, model: AnyAdapter, lines: list[str]) -> None:
    """Write the head states of sentences; a tab separates a source from its target."""
    pairs = [line.split("\t", 1) for line in lines]
    if len({len(pair) for pair in pairs}) > 1:
        raise UserError("--sentences: some lines have a tab, others not; give one in all or none")
    both = len(pairs[0]) == 2
    if model.rows > 1:
        run = HeadModel(model).run([tuple(pair) for pair in pairs])
    else:
        targets = [pair[1] for pair in pairs] if both else None
        run = HeadModel(model).run([pair[0] for pair in pairs], targets)
    content = io.BytesIO()
    arrays = run.arrays()  # none is called allow_pickle, which would be an option
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    write_files({file: content.getvalue()})


@torch.no_grad()
def mean_outputs(path: str | Path, data: str | Path, subset: str = "valid") -> Tensor:
    """Return the mean output of each encoder head over the layers and tokens of a split, (H, D).

    Li et al. 2021, section 4.1.2.3. For a language model, the decoder's heads are used.
    """
    (model,) = open_heads([path], data)
    components = [site.component for site in model.sites]
    component = "encoder" if "encoder" in components else "decoder"
    heads = len(model.sites[components.index(component)].numbers.kept)
    sums, count = [], 0
    for batch in model.batches(subset, 4000):
        for states in model.states(batch, ("outputs",))[component]:
            rows = real_rows(states).double().cpu()  # (N, H D)
            sums.append(rows.sum(dim=0))
            count += len(rows)
    return (sum(sums[1:], sums[0]) / count).unflatten(0, (heads, -1))
