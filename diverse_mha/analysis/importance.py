"""Head importance: rise of the loss under ablation, and gradient of a gate on the head."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic

import torch
from torch import Tensor

from diverse_mha.analysis.results import (
    ABLATION,
    GRADIENT,
    Ablation,
    Gradient,
    Importance,
    Layer,
)
from diverse_mha.analysis.similarity import mean
from diverse_mha.analysis.sites import Selection
from diverse_mha.common.progress import with_progress
from diverse_mha.evaluation.comparison.statistics import holm, rate
from diverse_mha.evaluation.protocol import Adapter, AnyAdapter, Batch, Change, OwnSite


class ImportanceMeter(Generic[Batch, OwnSite]):
    """Importance of every head of some attention modules, over the batches of a split.

    ``ABLATION`` is the rise of the token loss when the head's output is replaced before the
    aggregation (Michel et al. 2019; Voita et al. 2019). ``GRADIENT`` is a first-order estimate of
    this rise: |d loss / d gate| of each sentence, summed over sentences, with a gate of 1 on the
    head's output (Michel et al. 2019, Eq. 2). Both are in bits per token, or per example of a
    classifier.

    Args:
        model: the model.
        sites: the modules.
        measures: ``ABLATION``, ``GRADIENT`` or both.
        means: (component, layer) -> mean outputs of the heads (H, D), for mean ablation;
            None: zero ablation.
    """

    def __init__(
        self,
        model: Adapter[Batch, OwnSite],
        sites: Sequence[OwnSite],
        measures: tuple[str, ...],
        means: dict[tuple[str, int], Tensor] | None = None,
    ):
        self.model, self.sites, self.measures, self.means = model, sites, measures, means
        self.num_heads = [len(site.numbers.kept) for site in sites]
        # Lists with a tensor for each batch; losses, rises and slopes are in nats.
        self._losses: list[Tensor] = []  # (B,) loss of a sentence
        self._counts: list[Tensor] = []  # (B,) number of tokens of a sentence
        self._rises: list[Tensor] = []  # (B, all heads) rise of the loss by ablation
        self._slopes: list[Tensor] = []  # (B, all heads) gradient of the loss

    def update(self, batch: Batch) -> Iterator[OwnSite]:
        """Generator: measure a batch, and yield each module when done, for the progress bar."""
        if GRADIENT in self.measures:
            self._slopes.append(self._gradients(batch))
        with torch.no_grad():
            found = self.model.losses(batch)
            self._losses.append(found.losses.cpu())
            self._counts.append(found.counts.cpu())
            columns = []
            for site, heads in zip(self.sites, self.num_heads, strict=True):
                if ABLATION in self.measures:
                    for head in range(heads):
                        without = found.changed(site, self._without(site, head))
                        columns.append(without - found.losses)
                yield site
        if columns:
            self._rises.append(torch.stack(columns, dim=1).cpu())

    def _without(self, site: OwnSite, head: int) -> Change:
        fill = 0.0 if self.means is None else self.means[site.component, site.number][head]

        def change(outputs: Tensor) -> Tensor:  # (B, T, H, D)
            outputs = outputs.clone()
            outputs[:, :, head] = fill
            return outputs

        return change

    def _gradients(self, batch: Batch) -> Tensor:
        """Return the gradient of each sentence's loss w.r.t. each gate: (B, all heads), nats."""
        gates: dict[OwnSite, Tensor] = {}

        def gated(site: OwnSite) -> Change:
            def change(outputs: Tensor) -> Tensor:  # (B, T, H, D)
                shape = outputs.size(0), outputs.size(2)
                gates[site] = outputs.new_ones(shape).requires_grad_()
                return outputs * gates[site][:, None, :, None]

            return change

        loss = self.model.gated_loss(batch, {site: gated(site) for site in self.sites})
        slopes = torch.autograd.grad(loss, [gates[site] for site in self.sites])
        gradients = torch.cat(slopes, dim=1)
        by_sentence = gradients.view(-1, self.model.rows, gradients.size(1))
        return by_sentence.sum(dim=1).double().cpu()

    def result(self) -> tuple[Importance, dict[str, dict[str, Layer]]]:
        """Return the totals, and component -> layer -> measures."""
        counts = torch.cat(self._counts).numpy()
        total = float(counts.sum())
        tests, slopes = [], []
        if ABLATION in self.measures:
            columns = torch.cat(self._rises).numpy() / math.log(2)
            tests = [rate(column, counts) for column in columns.T]
        if GRADIENT in self.measures:
            sums = torch.cat(self._slopes).abs().sum(dim=0).numpy()
            slopes = (sums / math.log(2) / total).tolist()
        rises, corrected = [test.value for test in tests], holm([test.p for test in tests])
        modules: dict[str, dict[str, Layer]] = {}
        start = 0
        for site, count in zip(self.sites, self.num_heads, strict=True):
            own = slice(start, start + count)
            layer = modules.setdefault(site.component, {})[str(site.number)] = Layer()
            if ABLATION in self.measures:
                intervals, p = [test.interval for test in tests[own]], [x.p for x in tests[own]]
                ablation = Ablation(rises[own], intervals, p, corrected[own], mean(rises[own]))
                layer[ABLATION] = site.numbers.number(ablation)
            if GRADIENT in self.measures:
                gradient = Gradient(slopes[own], mean(slopes[own]))
                layer[GRADIENT] = site.numbers.number(gradient)
            start += count
        loss = float(torch.cat(self._losses).sum()) / math.log(2) / total
        of = "zero" if self.means is None else "mean"
        correlation = _rank_correlation(rises, slopes)
        return Importance(loss, int(total), correlation, of, self.model.unit), modules


def _rank_correlation(rises: list[float], slopes: list[float]) -> float | None:
    """Return Spearman's correlation; None if one side was not measured, or does not vary."""
    from scipy.stats import spearmanr

    if len(set(rises)) < 2 or len(set(slopes)) < 2:
        return None
    found: Any = spearmanr(rises, slopes)  # scipy has no types
    return float(found.statistic)


def measure_importance(
    model: AnyAdapter,
    selection: Selection,
    label: str = "",
    means: dict[tuple[str, int], Tensor] | None = None,
) -> tuple[Importance, dict[str, dict[str, Layer]]]:
    """Measure the importance of the selected heads over the split.

    Args:
        model: the model and its data.
        selection: components, layers, measures and split.
        label: label of the progress bar; if empty, no bar is shown.
        means: see :class:`ImportanceMeter`.

    Returns:
        The result of :meth:`ImportanceMeter.result`.
    """
    sites = selection.resolve(model.sites, model.path)
    batches = model.batches(selection.subset, selection.max_tokens)
    measures = tuple(name for name in selection.measures if name in (ABLATION, GRADIENT))
    meter = ImportanceMeter(model, sites, measures, means)
    steps: Iterable[object] = (site for batch in batches for site in meter.update(batch))
    if label:
        title = f"{label} {selection.subset}, importance"
        steps = with_progress(steps, title, "modules", total=len(batches) * len(sites))
    for _ in steps:
        pass
    return meter.result()
