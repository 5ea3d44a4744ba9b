"""Head importance: rise of the loss under ablation, and gradient of a gate on the head."""

import math
from collections.abc import Iterator
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from diverse_mha.analysis.ablation import (
    ActivationCache,
    Site,
    activation_checkpointing_off,
    gated,
    run_model,
    sentence_losses,
    sites_of,
    total_loss,
    unit_of,
)
from diverse_mha.analysis.results import Ablation, Gradient, Importance, Layer
from diverse_mha.analysis.similarity import Selection, mean
from diverse_mha.common.progress import with_progress
from diverse_mha.evaluation.comparison.statistics import holm, rate
from diverse_mha.evaluation.models import Loaded

ABLATION, GRADIENT = "importance", "importance-gradient"


class ImportanceMeter:
    """Importance of every head of some attention modules, over the batches of a split.

    ``ABLATION`` is the rise of the token loss when the head's output is replaced before the
    aggregation (Michel et al. 2019; Voita et al. 2019). ``GRADIENT`` is a first-order estimate of
    this rise: |d loss / d gate| of each sentence, summed over sentences, with a gate of 1 on the
    head's output (Michel et al. 2019, Eq. 2). Both are in bits per token, or per example of a
    classifier.

    Args:
        model: the model, in evaluation mode, on its device.
        sites: the modules.
        measures: ``ABLATION``, ``GRADIENT`` or both.
        means: (component, layer) -> mean outputs of the heads (H, D), for mean ablation;
            None: zero ablation.
    """

    def __init__(
        self,
        model: nn.Module,
        sites: list[Site],
        measures: tuple[str, ...],
        means: dict[tuple[str, int], Tensor] | None = None,
    ):
        self.model, self.sites, self.measures, self.means = model, sites, measures, means
        self.num_heads = [site.attention.num_heads for site in sites]
        # Lists with a tensor for each batch; losses, rises and slopes are in nats.
        self._losses: list[Tensor] = []  # (B,) loss of a sentence
        self._counts: list[Tensor] = []  # (B,) number of tokens of a sentence
        self._rises: list[Tensor] = []  # (B, all heads) rise of the loss by ablation
        self._slopes: list[Tensor] = []  # (B, all heads) gradient of the loss

    def update(self, sample: dict) -> Iterator[Site]:
        """Generator: measure a batch, and yield each module when done, for the progress bar."""
        if GRADIENT in self.measures:
            self._slopes.append(self._gradients(sample))
        with torch.no_grad():
            cache = ActivationCache(self.model, sample)
            losses, counts = sentence_losses(self.model, sample, cache.output)
            self._losses.append(losses.cpu())
            self._counts.append(counts.cpu())
            columns = []
            for site, heads in zip(self.sites, self.num_heads, strict=True):
                if ABLATION in self.measures:
                    for head in range(heads):
                        output = cache.ablate(site, self._without(site, head))
                        without, _ = sentence_losses(self.model, sample, output)
                        columns.append(without - losses)
                yield site
        if columns:
            self._rises.append(torch.stack(columns, dim=1).cpu())

    def _without(self, site: Site, head: int):
        fill = 0.0 if self.means is None else self.means[site.component, site.number][head]

        def change(outputs: Tensor) -> Tensor:  # (B, T, H, D)
            outputs = outputs.clone()
            outputs[:, :, head] = fill
            return outputs

        return change

    def _gradients(self, sample: dict) -> Tensor:
        """Return the gradient of each sentence's loss w.r.t. each gate: (B, all heads), nats."""
        rows = sample["net_input"]["src_tokens"].size(0)
        like = next(p for p in self.model.parameters() if p.is_floating_point())
        gates = [like.new_ones(rows, heads, requires_grad=True) for heads in self.num_heads]
        with ExitStack() as stack:
            stack.enter_context(activation_checkpointing_off(self.model))
            for site, gate in zip(self.sites, gates, strict=True):
                stack.enter_context(gated(site, lambda x, gate=gate: x * gate[:, None, :, None]))
            loss = total_loss(self.model, sample, run_model(self.model, sample))
        gradients = torch.cat(torch.autograd.grad(loss, gates), dim=1)
        # The two sentences of a pair are adjacent rows.
        return (
            gradients.view(len(sample["target"]), -1, gradients.size(1)).sum(dim=1).double().cpu()
        )

    def result(self) -> tuple[Importance, dict[str, dict[str, Layer]]]:
        """Return the totals, and component -> layer -> measures."""
        counts = torch.cat(self._counts).numpy()
        total, heads, tests, corrected = float(counts.sum()), {}, [], []
        if ABLATION in self.measures:
            rises = torch.cat(self._rises).numpy() / math.log(2)
            tests = [rate(column, counts) for column in rises.T]
            heads[ABLATION] = [test.value for test in tests]
            corrected = holm([test.p for test in tests])
        if GRADIENT in self.measures:
            slopes = torch.cat(self._slopes).abs().sum(dim=0).numpy() / math.log(2) / total
            heads[GRADIENT] = slopes.tolist()
        modules: dict[str, dict[str, Layer]] = {}
        start = 0
        for site, count in zip(self.sites, self.num_heads, strict=True):
            own = slice(start, start + count)
            layer = modules.setdefault(site.component, {})[str(site.number)] = {}
            if ABLATION in heads:
                rises, parts = heads[ABLATION][own], tests[own]
                intervals, p = [test.interval for test in parts], [test.p for test in parts]
                ablation = Ablation(rises, intervals, p, corrected[own], mean(rises))
                layer[ABLATION] = site.numbers.number(ablation)
            if GRADIENT in heads:
                gradient = Gradient(heads[GRADIENT][own], mean(heads[GRADIENT][own]))
                layer[GRADIENT] = site.numbers.number(gradient)
            start += count
        loss = float(torch.cat(self._losses).sum()) / math.log(2) / total
        of = "zero" if self.means is None else "mean"
        correlation = _rank_correlation(heads)
        return Importance(loss, int(total), correlation, of, unit_of(self.model)), modules


def _rank_correlation(heads: dict[str, list[float]]) -> float | None:
    from scipy.stats import spearmanr

    if len(heads) < 2 or any(len(set(values)) < 2 for values in heads.values()):
        return None
    return float(spearmanr(*heads.values()).statistic)


def chosen_sites(model: nn.Module, selection: Selection) -> list[Site]:
    """Return the selected attention modules."""
    sites = sites_of(model)
    depths = {site.component: site.number for site in sites}
    chosen = {
        (c, n) for c in selection.components_of(depths) for n in selection.layers_of(depths[c])
    }
    return [site for site in sites if (site.component, site.number) in chosen]


def measure_importance(
    loaded: Loaded,
    selection: Selection,
    label: str = "",
    means: dict[tuple[str, int], Tensor] | None = None,
) -> tuple[Importance, dict[str, dict[str, Layer]]]:
    """Measure the importance of the selected heads over the split.

    Args:
        loaded: the model and its data.
        selection: components, layers, measures and split.
        label: label of the progress bar; if empty, no bar is shown.
        means: see :class:`ImportanceMeter`.

    Returns:
        The result of :meth:`ImportanceMeter.result`.
    """
    sites = chosen_sites(loaded.model, selection)
    batches = loaded.batches(selection.subset, selection.max_tokens)
    measures = tuple(name for name in selection.measures if name in (ABLATION, GRADIENT))
    meter = ImportanceMeter(loaded.model, sites, measures, means)
    steps = (site for sample in batches for site in meter.update(sample))
    if label:
        title = f"{label} {selection.subset}, importance"
        steps = with_progress(steps, title, "modules", total=len(batches) * len(sites))
    for _ in steps:
        pass
    return meter.result()
