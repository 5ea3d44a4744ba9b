"""Checkpoints of fairseq and of this package, as the analysis sees them.

``FairseqAdapter`` fulfils the protocol in ``protocol.py``; ``opener.py`` opens it for ``analyze``,
``prune`` and ``diverse_mha.load``.
"""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from torch import Tensor

from diverse_mha.attention import HeadStates, Wanted
from diverse_mha.attention.sites import Encoded, Head, Sentences
from diverse_mha.common.errors import Option, UserError
from diverse_mha.corpora.prepared import preparation, read_side
from diverse_mha.evaluation import pruned
from diverse_mha.evaluation.ablation import (
    CachedLosses,
    Site,
    activation_checkpointing_off,
    gated,
    run_model,
    sites_of,
    total_loss,
    unit_of,
)
from diverse_mha.evaluation.models import (
    Batches,
    Loaded,
    Sample,
    check_same_blocks,
    open_models,
    translation_batch,
)
from diverse_mha.evaluation.search import BeamSearch
from diverse_mha.evaluation.states import write_state


class FairseqAdapter:
    """A checkpoint with its task and data.

    Attributes:
        loaded: the model, its task and data.
    """

    def __init__(self, loaded: Loaded):
        self.loaded = loaded
        self.path, self.architecture = loaded.path, loaded.architecture
        self.unit, self.sites = unit_of(loaded.model), sites_of(loaded.model)

    @property
    def rows(self) -> int:
        """Rows of a batch for each sentence; the two sentences of a pair are adjacent rows."""
        return getattr(self.loaded.task, "sentences", 1)

    def batches(self, subset: str, max_tokens: int, *, label: str = "") -> Batches:
        """Return the batches of a split; see :meth:`Loaded.batches`."""
        return self.loaded.batches(subset, max_tokens, label=label)

    def first(self, subset: str, count: int) -> set[int]:
        """Return the numbers of the first sentences of the split that are not too long."""
        dataset = self.loaded.task.dataset(subset)
        numbers, _ = dataset.filter_indices_by_size(np.arange(len(dataset)), self.loaded.longest)
        return {int(number) for number in numbers[:count]}

    def numbers(self, batch: Sample) -> list[int]:
        """Return the number of each sentence of a batch, as in fairseq-generate."""
        return batch["id"].tolist()

    def states(self, batch: Sample, wanted: Wanted) -> dict[str, list[HeadStates]]:
        """Return component -> head states of each layer."""
        return self.loaded.states(batch, wanted)

    def tokens(self, batch: Sample, component: str, row: int) -> tuple[list[str], list[str]]:
        """Return the tokens of the queries and keys of a row, padding included."""
        task, net_input = self.loaded.task, batch["net_input"]
        source = [task.source_dictionary[int(n)] for n in net_input["src_tokens"][row]]
        if component == "encoder" or "prev_output_tokens" not in net_input:
            return source, source
        read = batch["target"] if component == "cross" else net_input["prev_output_tokens"]
        target = [task.target_dictionary[int(n)] for n in read[row]]
        return target, source if component == "cross" else target

    def losses(self, batch: Sample) -> CachedLosses:
        """Return the losses of a batch, and an activation cache for changed heads."""
        return CachedLosses(self.loaded.model, batch)

    def gated_loss(
        self, batch: Sample, changes: Mapping[Site, Callable[[Tensor], Tensor]]
    ) -> Tensor:
        """Return the summed loss with changed head outputs, for a backward pass."""
        model = self.loaded.model
        with ExitStack() as stack:
            stack.enter_context(activation_checkpointing_off(model))
            for site, change in changes.items():
                stack.enter_context(gated(site, change))
            return total_loss(model, batch, run_model(model, batch))

    def reads_like(self, other: "FairseqAdapter") -> bool:
        """Return True if both models have the same languages."""
        one, two = (
            tuple(getattr(x.loaded.task.cfg, f"{side}_lang", None) for side in ("source", "target"))
            for x in (self, other)
        )
        return one == two

    def encode(
        self, sentences: Sentences, target: Sequence[str] | None, beam: int
    ) -> Encoded[Sample]:
        """Return sentences as a batch on the model's device; see ``analysis.heads``."""
        sample, source, predicted = self._make_sample(sentences, target, beam)
        sample["id"] = torch.arange(len(sentences))
        return Encoded(self.loaded.on_device(sample), source, predicted)

    def _make_sample(self, sentences, target, beam: int) -> tuple[Sample, Any, Any]:
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

    def _encode(self, side: int, sentences: Sequence[str]) -> list[Tensor]:
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

    def symbols(self, side: int, rows: Iterable[Tensor]) -> list[list[str]]:
        """Return the subwords of rows of ids, of the source (side 0) or target."""
        return [[self._dictionary(side)[int(token)] for token in row] for row in rows]

    def _translate(self, net_input: Sample, beam: int) -> list[Tensor]:
        """Return the model's own translations; each ends with eos."""
        cfg = SimpleNamespace(generation=GenerationConfig(beam=beam))
        search = BeamSearch(self.loaded, cfg, fast=False)
        numbers = torch.arange(len(net_input["src_tokens"]))
        sample = self.loaded.on_device({"id": numbers, "net_input": net_input})
        return [cast("Tensor", found.tokens).long() for _, found in search.best([sample])]

    def check_prunable(self) -> None:
        """Raise ``UserError`` unless the model's aggregation is linear."""
        pruned.check_prunable(self.loaded)

    def removal_group(self, count: int) -> None:
        """Raise ``UserError`` if a method makes heads depend on each other."""
        pruned.check_removable(self.loaded)

    def zero(self, head: Head) -> None:
        """Zero a head's columns of the output projection."""
        pruned.zero_head(self.loaded.model, head)

    def save_pruned(self, heads: list[Head], output: str | Path, *, remove: bool) -> str:
        """Write the checkpoint without ``heads``; return how to continue its training."""
        make = pruned.removed_state if remove else pruned.zeroed_state
        write_state(make(self.path, self.loaded, heads), output)
        option = pruned.pruned_option(self.loaded, heads) if remove else ""
        return f"to continue training, add --pruned-heads '{option}'" if option else ""

    def check_translates(self) -> None:
        """Raise ``UserError`` for language models and classifiers."""
        if not hasattr(self.loaded.task, "src_dict"):
            why = f": {self.loaded.path} does not translate; give "
            raise UserError(Option("score", "bleu"), why, Option("score", "nll"))

    def bleu(self, heads: list[Head], subset: str, *, cpu: bool) -> float:
        """Return sacreBLEU of the pruned checkpoint by ``diverse-mha evaluate``."""
        from diverse_mha.evaluation import evaluate

        with tempfile.TemporaryDirectory(prefix="prune-") as folder:
            checkpoint, result = Path(folder, "pruned.pt"), Path(folder, "scores.json")
            self.save_pruned(heads, checkpoint, remove=False)
            words = [str(checkpoint), str(self.loaded.options.data), "--subset", subset]
            words += ["--output", str(result), *(["--cpu"] if cpu else [])]
            with contextlib.redirect_stdout(io.StringIO()):
                evaluate.main(words)
            return json.loads(result.read_text(encoding="utf-8"))["sacrebleu"]


def _batch(rows: list[Tensor], pad: int) -> Sample:
    """Return source tokens, padded on the right, and their lengths."""
    return {
        "src_tokens": data_utils.collate_tokens(rows, pad),
        "src_lengths": torch.tensor([len(row) for row in rows]),
    }


def open_checkpoints(
    paths: Sequence[str | Path], data: str | Path, *, cpu: bool = False
) -> list[FairseqAdapter]:
    """Open checkpoints that are compared: each skips sentences that are too long for any of them.

    Args:
        paths: checkpoints of this package, or of fairseq's ``transformer`` or ``transformer_lm``.
        data: folder of binarised data (fairseq-preprocess).
        cpu: do not use a GPU.
    """
    models = [open_models(str(path), data, cpu=cpu, heads=True) for path in paths]
    check_same_blocks(models)
    limit = utils.resolve_max_positions(*(loaded.longest for loaded in models))
    return [FairseqAdapter(replace(loaded, limit=limit)) for loaded in models]
