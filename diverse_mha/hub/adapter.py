"""Models of transformers, as the analysis sees them.

``HubAdapter`` fulfils the protocol in ``evaluation/protocol.py``; ``evaluation/opener.py`` opens it
for ``analyze``, ``prune``, ``align`` and ``diverse_mha.load``. The model's attention calls the
function of ``hub/attention.py`` during a measurement, and its own one otherwise.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from diverse_mha.attention import HeadStates, Wanted
from diverse_mha.attention.core import COMPONENTS
from diverse_mha.attention.sites import Encoded, Head, HeadNumbers, Sentences
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.progress import with_progress
from diverse_mha.corpora.text import read_lines
from diverse_mha.hub import attention, fsmt, pruned, search
from diverse_mha.hub.states import IGNORED, Recorder
from diverse_mha.hub.texts import (
    BLOCK,
    Batch,
    Classifier,
    Example,
    LanguageModel,
    MaskedLanguageModel,
    Reader,
    Text,
    Translation,
)

SUPPORTED = "Marian, FSMT, M2M100, BART, T5, BERT, GPT-2, Llama and others with attn_implementation"
TOKENS = 4000  # tokens of the source that are translated at once, over all beams
#: Models whose position table begins after the padding token.
_OFFSET = ("roberta", "camembert", "mpnet", "data2vec-text")
Change = Callable[[Tensor], Tensor]


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Context manager: hide transformers' bars of loading and writing weights."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()


class HubSite(NamedTuple):
    """An attention module of a model of transformers."""

    component: str
    number: int  # layer, from 1
    numbers: HeadNumbers
    module: nn.Module
    stack: str  # name of the list of layers
    place: int  # place of the layer in the list
    projection: Any  # Linear or Conv1D that merges the heads; None if there is no such module


class _Collector:
    """Head states of one forward pass; takes the place of ``hub.states.Batch``."""

    def __init__(self):
        self.layers: dict[str, list[HeadStates]] = defaultdict(list)
        self.modules: list[tuple[str, nn.Module, int]] = []  # with the number of heads
        self.waiting = 0  # width of outputs that no projection has taken yet

    def add(self, component, states, mask, size, module) -> None:
        """Record the head states of a layer."""
        self.layers[component].append(states)
        if (outputs := states.outputs) is not None:
            self.modules.append((component, module, outputs.size(1)))
            self.waiting = outputs.size(1) * outputs.size(3)


class HubAdapter:
    """A model of transformers with its tokenizer and texts.

    Args:
        model: the model, in evaluation mode, on its device.
        tokenizer: its tokenizer.
        texts: split -> its files.
        path: name for messages.
        block: tokens in a block of text, for language models.

    Attributes:
        rows: rows of a batch for each sentence.

    Raises:
        UserError: the model's attention cannot be observed.
    """

    rows = 1

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        texts: Mapping[str, Text] | None = None,
        *,
        path: str = "",
        block: int = BLOCK,
    ):
        self.model, self.tokenizer, self.texts = model, tokenizer, dict(texts or {})
        self.architecture = type(model).__name__
        self.path = path or self.architecture
        self._found = [*attention.attention_modules(model), *fsmt.attention_modules(model)]
        if not self._found or any(one.eager is None for one in self._found):
            reason = attention.not_observable(model, f"supported are {SUPPORTED}")
            raise UserError(f"{self.path}: {reason}")
        if any(attention.has_terms(one.module) for one in self._found):
            raise UserError(f"{self.path}: has terms; close() these terms first")
        attention.implementation(self.path, model.config)
        self._record = pruned.Record(self.path)
        self.sites = self._probe()
        self.components = tuple(dict.fromkeys(site.component for site in self.sites))
        self.reader = self._reader(block)
        self.unit = self.reader.unit
        self._examples: dict[str, list[Example]] = {}
        self._byte_level = "Ġ" in "".join(tokenizer.tokenize(" a"))

    def _probe(self) -> list[HubSite]:
        """Run two tokens, and return the attention modules that ran, with their projections."""
        names = {one.module: one.name for one in self._found}
        collector, projections = _Collector(), {}

        def hook(linear: nn.Module, args: tuple) -> None:
            if collector.waiting and args and args[0].size(-1) == collector.waiting:
                projections[collector.modules[-1][1]] = linear
                collector.waiting = 0

        ids = torch.tensor([[2, 3]], device=self.model.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self._is_pair:
            inputs["decoder_input_ids"] = ids
        wanted: dict[str, tuple[str, ...]] = {name: ("outputs",) for name in COMPONENTS}
        linears = [m for m in self.model.modules() if isinstance(m, nn.Linear | Conv1D)]
        handles = [linear.register_forward_pre_hook(hook) for linear in linears]
        try:
            with torch.no_grad(), self._observed(collector, wanted):
                self.model.base_model(**inputs)
        finally:
            for handle in handles:
                handle.remove()
        if len(collector.modules) != len({module for _, module, _ in collector.modules}):
            raise UserError(
                f"{self.path}: {self.architecture} runs one attention module in several layers, so "
                "its layers cannot be told apart"
            )
        sites: list[HubSite] = []
        counts: dict[str, int] = {name: 0 for name in COMPONENTS}
        for component, module, heads in collector.modules:
            counts[component] += 1
            numbers = self._record.numbers(component, counts[component], heads)
            projection, place = projections.get(module), _place(names[module])
            sites.append(HubSite(component, counts[component], numbers, module, *place, projection))
        return sorted(sites, key=lambda site: (COMPONENTS.index(site.component), site.number))

    @property
    def _is_pair(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    def _reader(self, block: int) -> Reader:
        config, kind = self.model.config, self.architecture
        longest = min(self.tokenizer.model_max_length, 10**6)
        if (most := getattr(config, "max_position_embeddings", None)) is not None:
            offset = any(name in config.model_type for name in _OFFSET)
            longest = min(longest, most - (config.pad_token_id + 1 if offset else 0))
        if self._is_pair:
            return Translation(self.model, self.tokenizer, longest)
        if kind.endswith("ForSequenceClassification"):
            return Classifier(self.model, self.tokenizer, longest)
        if self.components == ("decoder",):
            return LanguageModel(self.model, self.tokenizer, min(longest, block))
        return MaskedLanguageModel(self.model, self.tokenizer, longest)

    @contextmanager
    def _observed(
        self,
        collector: _Collector | None = None,
        wanted: Mapping[str, tuple[str, ...]] | None = None,
        changes: Mapping[nn.Module, Change] | None = None,
    ) -> Iterator[None]:
        """Context manager: the model's attention records head states, or changes them."""
        recorder = Recorder()
        recorder.batch, recorder.wanted = collector, dict(wanted or {})
        recorder.changes = dict(changes or {})
        own = [one.module for one in self._found if isinstance(one.module, fsmt.Attention)]
        for module in own:
            module.config, module.forward = self.model.config, MethodType(fsmt.forward, module)
        for one in self._found:
            assert one.eager is not None  # as checked in the constructor
            site = attention.Site(recorder, one.component, one.eager, None)
            attention.attach(one.module, site)
        try:
            yield
        finally:
            for one in self._found:
                attention.detach(one.module)
            for module in own:
                del module.config, module.forward

    def examples(self, subset: str) -> list[Example]:
        """Return the sentences of a split, in their order."""
        if subset not in self._examples:
            text = self.texts[subset]
            needs, kind = self.reader.needs_target, self.architecture
            if needs and text.target is None:
                target = Option("target", "FILE")
                raise UserError(f"{self.path}: {kind} needs {needs}; give ", target)
            if text.target is not None and not needs:
                target = Option("target", text.target)
                raise UserError(target, f": {kind} takes none; leave it out")
            found = list(self.reader.read(text, self.path))
            if not found:
                raise UserError(
                    f"{text.source}: has no sentence that {self.path} can read, of 1 to "
                    f"{self.reader.longest:,} tokens"
                )
            self._examples[subset] = found
        return self._examples[subset]

    def batches(self, subset: str, max_tokens: int, *, label: str = "") -> "HubBatches":
        """Return the batches of a split for one pass, sorted by length."""
        return HubBatches(
            self, self.examples(subset), max_tokens, f"{label} {subset}" if label else ""
        )

    def make_batch(self, examples: list[Example]) -> Batch:
        """Return a padded batch on the model's device."""
        batch, device = self.reader.batch(examples), self.model.device
        both = {id(x): x for x in (batch.inputs, batch.scored)}
        moved = {
            key: {k: x.to(device) if torch.is_tensor(x) else x for k, x in inputs.items()}
            for key, inputs in both.items()
        }
        batch.inputs, batch.scored = moved[id(batch.inputs)], moved[id(batch.scored)]
        for name in ("labels", "source_padding", "target_padding"):
            value = getattr(batch, name)
            setattr(batch, name, None if value is None else value.to(device))
        return batch

    def first(self, subset: str, count: int) -> set[int]:
        """Return the numbers of the first sentences of the split."""
        return {one.number for one in self.examples(subset)[:count]}

    def numbers(self, batch: Batch) -> list[int]:
        """Return the number of each sentence of a batch: line or block, from 0."""
        return batch.numbers

    @torch.no_grad()
    def states(self, batch: Batch, wanted: Wanted) -> dict[str, list[HeadStates]]:
        """Return component -> head states of each layer, for unmasked sentences."""
        if not isinstance(wanted, Mapping):
            wanted = dict.fromkeys(self.components, tuple(wanted))
        collector = _Collector()
        with self._observed(collector, wanted):
            self.model.base_model(**batch.inputs)
        source, target = batch.source_padding, batch.target_padding
        target = source if target is None else target
        paddings = {"encoder": (source, source), "cross": (target, source)}
        paddings["decoder"] = (target, target)
        found = {}
        for component in self.components:
            queries, keys = paddings[component]
            found[component] = [
                states._replace(query_padding_mask=queries, key_padding_mask=keys)
                for states in collector.layers[component]
            ]
        return {component: found[component] for component in wanted if component in found}

    def tokens(self, batch: Batch, component: str, row: int) -> tuple[list[str], list[str]]:
        """Return the tokens of the queries and keys of a row, padding included."""
        source = self._symbols(batch.inputs["input_ids"][row])
        if component == "encoder" or batch.target_padding is None:
            return source, source
        if component == "decoder":
            target = self._symbols(batch.inputs["decoder_input_ids"][row])
            return target, target
        return self._symbols(batch.labels[row].clamp_min(0)), source

    def symbols(self, side: int, rows: Iterable[Tensor]) -> list[list[str]]:
        """Return the tokens of rows of ids."""
        return [self._symbols(row) for row in rows]

    def _symbols(self, ids: Tensor) -> list[str]:
        if self._byte_level:  # the vocabulary's own spelling of bytes is unreadable
            return [self.tokenizer.decode([n]).replace(" ", "▁") for n in ids.tolist()]
        return self.tokenizer.convert_ids_to_tokens(ids.tolist())

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss of every sentence and its number of predictions."""
        if batch.labels is None:
            raise UserError(
                f"{self.path}: {self.architecture} has no predictions here, so heads have no "
                "importance; give a model with a language model's head, or labels (",
                Option("target"), ")",
            )  # fmt: skip
        with self._predictions_only(batch):
            logits = getattr(self.model(**batch.scored), "logits", None)
        if logits is None or logits.size(-1) <= int(batch.labels.max()):
            raise UserError(
                f"{self.path}: {self.architecture} has no head that predicts tokens or labels, so "
                "it has no loss; give a model with such a head, or leave out ",
                Option("measures", "importance"),
            )
        return self.reader.losses(logits, batch)

    @contextmanager
    def _predictions_only(self, batch: Batch) -> Iterator[None]:
        """Context manager: logits are computed at positions with labels only, as (1, N, V)."""
        head = self.model.get_output_embeddings()
        if head is None or batch.labels.dim() != 2:
            yield
            return
        real = batch.labels != IGNORED

        def select(_, args: tuple) -> tuple | None:
            # FSMT returns its embedding here, which reads ids (B, T).
            if not args or args[0].dim() != 3 or args[0].shape[:2] != real.shape:
                return None
            return (args[0][real][None], *args[1:])

        handle = head.register_forward_pre_hook(select)
        try:
            yield
        finally:
            handle.remove()

    def losses(self, batch: Batch) -> "HubLosses":
        """Return the losses of a batch, and an activation cache for changed heads."""
        return HubLosses(self, batch)

    def gated_loss(self, batch: Batch, changes: Mapping[HubSite, Change]) -> Tensor:
        """Return the summed loss with changed head outputs, for a backward pass."""
        by_module = {site.module: change for site, change in changes.items()}
        with self._observed(changes=by_module):
            return self._run(batch)[0].sum()

    def reads_like(self, other: "HubAdapter") -> bool:
        """Return True if both models read the same token ids."""
        if type(self.reader) is not type(other.reader):
            return False
        for subset in self.texts:
            one, two = self.examples(subset), other.examples(subset)
            if len(one) != len(two):
                return False
            for x, y in zip(one, two, strict=True):
                pairs = ((x.source, y.source), (x.target, y.target))
                if not all(
                    a is b or (a is not None and b is not None and torch.equal(a, b))
                    for a, b in pairs
                ):
                    return False
        return True

    def encode(
        self, sentences: Sentences, target: Sequence[str] | None, beam: int
    ) -> Encoded[Batch]:
        """Return sentences as a batch on the model's device; see ``analysis.heads``."""
        examples = self.reader.given(sentences, target)
        for number, one in enumerate(examples, 1):
            if not len(one.source):
                raise UserError(f"sentence {number}: is empty; leave it out")
            if one.size > self.reader.longest:
                raise UserError(
                    f"sentence {number}: {one.size:,} tokens, but the model reads at most "
                    f"{self.reader.longest:,}; shorten it"
                )
        if self._is_pair and target is None:
            rows = search.translate(self.model, self.reader, examples, num_beams=beam)
            pairs = zip(examples, rows, strict=True)
            examples = [one._replace(target=row) for one, row in pairs]
        rows = [self.reader.predicted(one) for one in examples]
        predicted = [row for row in rows if row is not None]
        source = [one.source for one in examples]
        return Encoded(self.make_batch(examples), source, predicted or None)

    def check_prunable(self) -> None:
        """Raise ``UserError`` unless every module has an output projection."""
        for site in self.sites:
            if site.projection is None:
                raise UserError(
                    f"{self.path}: {site.component} layer {site.number} has no linear output "
                    "projection, in which heads could be zeroed"
                )

    def removal_group(self, count: int) -> int:
        """Return how many neighbouring heads are removed together, as many from every layer.

        Raises:
            UserError: transformers could not load the model without ``count`` heads.
        """
        removal, layers = self._removal(), len(self.sites)
        if not removal.counts:
            raise UserError(
                Option("remove", True),
                ": needs a model whose config allows fewer heads of the same size, such as Llama, "
                f"Mistral, Qwen or Gemma; {self.architecture} is none; leave out ",
                Option("remove"), ": then pruned heads are set to zero",
            )  # fmt: skip
        if count not in [n * layers for n in removal.counts]:
            possible = ", ".join(str(n * layers) for n in removal.counts)
            raise UserError(
                Option("remove", True),
                f": {type(self.model.config).__name__} has one number of heads for all layers, so "
                f"{self.path} can lose {possible} heads, not {count}; give one of these, such as ",
                Option("heads", removal.counts[0] * layers),
            )
        return removal.group

    def _removal(self) -> pruned.Removal:
        modules = [site.module for site in self.sites]
        return pruned.Removal(self.model, modules, [len(site.numbers.kept) for site in self.sites])

    @torch.no_grad()
    def zero(self, head: Head) -> None:
        """Zero a head's columns of the output projection."""
        (site,) = (site for site in self.sites if site[:2] == head[:2])
        weight, kept = site.projection.weight, site.numbers.kept
        columns = weight.T if isinstance(site.projection, Conv1D) else weight
        columns.unflatten(1, (len(kept), -1))[:, kept.index(head.head)] = 0

    @_no_progress_bars()
    def save_pruned(self, heads: list[Head], output: str | Path, *, remove: bool) -> str:
        """Write a folder with the model, whose ``heads`` are zero already, and its tokenizer."""
        model, dtype, sites = self.model, self.model.dtype, self.sites
        model.to(getattr(model, "saved_dtype", dtype))
        if remove:
            sites = [site._replace(numbers=_without(site, heads)) for site in sites]
            kept = {
                site.module: [site.numbers.kept.index(n) for n in left.numbers.kept]
                for site, left in zip(self.sites, sites, strict=True)
            }
            self._removal().save(kept, output)
        else:
            model.save_pretrained(output)
        model.to(dtype)
        self.tokenizer.save_pretrained(output)
        self._record.write(output, sites, heads)
        return ""

    def check_translates(self) -> None:
        """Raise ``UserError`` unless the model translates, and sacreBLEU can score that."""
        if not self._is_pair:
            why = f": {self.architecture} does not translate; give "
            raise UserError(Option("score", "bleu"), why, Option("score", "nll"))
        search.scorer(self.tokenizer)

    def bleu(self, heads: list[Head], subset: str, *, cpu: bool) -> float:
        """Return sacreBLEU of a split without ``heads``, which are zeroed already.

        Beam size and length penalty are those of the folder's generation config. Lines that the
        model cannot read are not scored.
        """
        target = self.texts[subset].target
        assert target is not None  # as examples() checks
        lines, rows = list(read_lines(Path(target))), {}
        beams = self.model.generation_config.num_beams or 1
        batches = HubBatches(self, self.examples(subset), TOKENS // beams, "").groups
        for batch in with_progress(batches, f"translating {subset}", "batches"):
            found = search.translate(self.model, self.reader, batch)
            rows |= {one.number: row for one, row in zip(batch, found, strict=True)}
        references = [lines[number] for number in rows]
        code = self.reader.language_code()
        return search.bleu(self.tokenizer, code, rows.values(), references)


def _without(site: HubSite, heads: list[Head]) -> HeadNumbers:
    """Return the numbers of a module's heads after the removal of ``heads``."""
    left = tuple(n for n in site.numbers.kept if Head(*site[:2], n) not in heads)
    return HeadNumbers(left, site.numbers.total)


def _place(name: str) -> tuple[str, int]:
    """Return the list of layers that a module is in, and the place of its layer; -1 for none."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return ("", -1) if at is None else (".".join(parts[:at]), int(parts[at]))


class HubBatches:
    """The batches of a split, sorted by length, of up to ``max_tokens`` padded tokens."""

    def __init__(self, adapter: HubAdapter, examples: list[Example], max_tokens: int, label: str):
        self._adapter, self._label = adapter, label
        self.groups: list[list[Example]] = []
        ordered = sorted(examples, key=lambda one: (one.size, len(one.source)))
        for one in ordered:
            last = self.groups[-1] if self.groups else None
            if last is not None and (len(last) + 1) * one.size <= max_tokens:
                last.append(one)
            else:
                self.groups.append([one])

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Batch]:
        groups = self.groups
        shown = with_progress(groups, self._label, "batches") if self._label else groups
        return (self._adapter.make_batch(group) for group in shown)


class HubLosses:
    """The losses of a batch, with the results of its modules as an activation cache.

    The cache holds the head outputs of every attention module, and the results of attention
    modules, layers and the encoder.

    Attributes:
        losses: loss of every sentence in nats, (B,) float64.
        counts: number of predictions of every sentence, (B,) float64.
    """

    def __init__(self, adapter: HubAdapter, batch: Batch):
        self._adapter, self._batch = adapter, batch
        model = adapter.model
        modules = [site.module for site in adapter.sites]
        modules += [
            model.get_submodule(f"{site.stack}.{site.place}")
            for site in adapter.sites
            if site.place >= 0
        ]
        if model.config.is_encoder_decoder:
            modules.append(model.get_encoder())
        self._results: dict[nn.Module, Any] = {}  # in the order in which modules returned
        self._outputs: dict[nn.Module, Tensor] = {}  # attention module -> head outputs
        self._projected: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # projection -> in, out
        with ExitStack() as stack:
            for module in dict.fromkeys(modules):
                stack.callback(module.register_forward_hook(self._save).remove)
            for site in adapter.sites:
                if site.projection is not None:
                    handle = site.projection.register_forward_hook(self._save_projected)
                    stack.callback(handle.remove)
            changes = {site.module: self._saver(site.module) for site in adapter.sites}
            with adapter._observed(changes=changes):
                self.losses, self.counts = adapter._run(batch)
        self._makers = {site: self._maker(site) for site in adapter.sites}
        self._projected.clear()

    def _save(self, module: nn.Module, _, result: Any) -> None:
        self._results[module] = result

    def _save_projected(self, module: nn.Module, args: tuple, result: Tensor) -> None:
        self._projected[module] = args[0], result

    def _saver(self, module: nn.Module) -> Change:
        def save(outputs: Tensor) -> Tensor:
            self._outputs[module] = outputs
            return outputs

        return save

    def _maker(self, site: HubSite) -> Change | None:
        """Return what makes a module's output from head outputs; None if it is not known.

        The output is the merged heads, or their projection. Both are compared with the tensors of
        the first pass, because a model may do more, as gated attention and FSMT do.
        """
        if site.projection not in self._projected:
            return None
        merged, projected = self._projected[site.projection]
        outputs, first = self._outputs[site.module], _first(self._results[site.module])
        if not torch.equal(outputs.flatten(2), merged):
            return None
        if torch.equal(first, merged):
            return lambda heads: heads.flatten(2)
        if torch.equal(first, projected):
            return lambda heads: site.projection(heads.flatten(2))
        return None

    def _unchanged(self, site: HubSite) -> dict[nn.Module, Any]:
        """Return the results that do not depend on a module's heads."""
        found = {}
        for module, result in self._results.items():
            if module is site.module:
                break
            found[module] = result
        for other in self._adapter.sites:  # reads the translation alone
            if (site.component, other.component, other.number) == ("encoder", "decoder", 1):
                found[other.module] = self._results[other.module]
        return found

    def changed(self, site: HubSite, change: Change) -> Tensor:
        """Return the losses with ``change`` applied to a module's head outputs (B, T, H, D).

        What ran before the module's output projection is taken from the cache.
        """
        cached, make = self._unchanged(site), self._makers[site]
        changes = {site.module: change}
        if make is not None:
            result, output = self._results[site.module], make(change(self._outputs[site.module]))
            cached[site.module] = (output, *result[1:]) if isinstance(result, tuple) else output
            changes = {}
        try:
            for module, result in cached.items():
                module.forward = lambda *_, result=result, **__: result
            with self._adapter._observed(changes=changes) if changes else nullcontext():
                return self._adapter._run(self._batch)[0]
        finally:
            for module in cached:
                vars(module).pop("forward", None)


def _first(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


@_no_progress_bars()
def open_model(path: str | Path, *, cpu: bool = False) -> tuple[Any, Any]:
    """Load a folder of transformers in float32; return the model and its tokenizer.

    No code of the folder runs, and nothing is downloaded.
    """
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(path, **options)
        kind = next(iter(config.architectures or ()), "")
        model_class = getattr(transformers, kind, None)
        if model_class is None:
            raise UserError(
                f"{path}: architecture {kind or 'none'} is not one of transformers "
                f"{transformers.__version__}; supported are {SUPPORTED}"
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, **options)
        saved = config.dtype or torch.float32
        model = model_class.from_pretrained(
            path, config=config, dtype=torch.float32, local_files_only=True
        )
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: transformers cannot load this folder ({reason})") from error
    model.saved_dtype = saved
    model = model.eval().requires_grad_(False)
    return model.cuda() if torch.cuda.is_available() and not cpu else model, tokenizer


def open_folders(
    paths: Sequence[Any],
    texts: Mapping[str, Text],
    *,
    cpu: bool = False,
    block: int | None = None,
    tokenizer: Any = None,
) -> list[HubAdapter]:
    """Open models that are compared: each skips lines that one of them cannot read.

    Args:
        paths: folders, or models of transformers.
        texts: split -> its files.
        cpu: do not use a GPU.
        block: tokens in a block of text, for language models.
        tokenizer: the tokenizer of models that are given as objects.
    """
    adapters = []
    for path in paths:
        if isinstance(path, nn.Module):
            if tokenizer is None:
                raise UserError(f"{type(path).__name__}: give its tokenizer, tokenizer=...")
            model, own, name = path.eval(), tokenizer, type(path).__name__
        else:
            (model, own), name = open_model(path, cpu=cpu), str(path)
        adapters.append(HubAdapter(model, own, texts, path=name, block=block or BLOCK))
    for subset in texts:
        lines = [a for a in adapters if not isinstance(a.reader, LanguageModel)]
        common = [{one.number for one in adapter.examples(subset)} for adapter in lines]
        for adapter in lines if len(lines) > 1 else ():
            every = set.intersection(*common)
            adapter._examples[subset] = [x for x in adapter.examples(subset) if x.number in every]
    return adapters
