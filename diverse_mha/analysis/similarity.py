"""Head similarity over a split: CKA, SVCCA, JSD, entropy and disagreement of attention modules.

The meters accumulate sums over batches, and return the measures of heads and of pairs of heads. The
disagreement scores exp(D) are those of Li et al. 2018, Tables 4 and 5.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from diverse_mha.analysis.results import (
    Cka,
    Component,
    Disagreement,
    Divergence,
    Heads,
    Layer,
    Score,
    Sharpness,
    Svcca,
    value_of,
)
from diverse_mha.attention import HeadStates
from diverse_mha.attention.sites import HeadNumbers, Site
from diverse_mha.measures.attention_weights import divergence_sums, entropy_sums
from diverse_mha.measures.moments import Moments
from diverse_mha.measures.similarity import (
    FEWEST,
    THRESHOLD,
    cka_from_scatter,
    kept_directions,
    svcca_from_scatter,
)
from diverse_mha.measures.unbiased import NormMoments, unbiased_cka
from diverse_mha.methods.disagreement import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)

SCORES = ("subspace", "position", "output")


def disagreement_sums(states: HeadStates) -> np.ndarray:
    """Return the sums of a batch from which the disagreement D of Li et al. 2018 is computed.

    The array (3, 3) has a row for each of ``SCORES``: count * D, count * D over the pairs i != j,
    and count. The count is the number of positions for subspace and output, and the number of
    sentences for position, as in the paper (see ``disagreement_scores``). Sums over batches,
    divided by the total count, do not depend on how sentences are batched.

    D includes the pairs i = j, whose cosine is always 1. Over the H (H - 1) pairs i != j of H
    heads, orthogonal heads have exp(D) = 1. With one head, D over these pairs is NaN.
    """
    queries, keys = states.query_padding_mask, states.key_padding_mask
    values, weights = states.required("values"), states.required("weights")
    outputs = states.required("outputs")
    scores = []
    for form in ((), ("off-diagonal",)):
        subspace = subspace_disagreement(values, keys, form=form)
        position = position_disagreement(weights, queries, keys, "sentence", form)
        output = output_disagreement(outputs, queries, form=form)
        scores.append([float(subspace), float(position), float(output)])
    if outputs.size(1) == 1:
        scores[1] = [math.nan] * 3
    counts = [_real(keys, values), len(weights), _real(queries, outputs)]
    return np.array([*scores, [1] * 3]).T * np.array(counts)[:, None]


def disagreement_result(d: np.ndarray) -> dict[str, Disagreement]:
    """Return the scores of a component.

    ``layers`` holds exp(D) of each layer (Table 5), ``all`` holds exp of the mean D over layers
    (Table 4). Both are in (0, 1]; higher = more diverse. ``off_diagonal`` holds both scores over
    the pairs i != j, in (0, exp(1 / (H - 1))] with H heads. A layer with one head, such as pruning
    leaves, has no pairs: its score is None, and it does not count in ``all``.

    Args:
        d: (layers, 3, 2), for each of ``SCORES``: D, and D over the pairs i != j.
    """
    return {
        score: Disagreement(*_score(d[:, place, 0]), Score(*_score(d[:, place, 1])))
        for place, score in enumerate(SCORES)
    }


def _score(d: np.ndarray) -> tuple[list[float | None], float | None]:
    """Return exp(D) of each layer, and exp of the mean D."""
    known = d[~np.isnan(d)]
    layers = [None if math.isnan(score) else score for score in np.exp(d).tolist()]
    return layers, math.exp(known.mean()) if len(known) else None


def _real(padding_mask: Tensor | None, x: Tensor) -> int:
    """Return the number of positions of states (B, H, L, D) that are not padding."""
    return x.size(0) * x.size(2) if padding_mask is None else int((~padding_mask).sum())


def real_rows(states: HeadStates) -> Tensor:
    """Return the outputs at the N positions that are not padding: (N, H * D)."""
    rows = states.required("outputs").transpose(1, 2).flatten(2)  # (B, T, H * D)
    padding = states.query_padding_mask
    return rows.flatten(0, 1) if padding is None else rows[~padding]


class ModuleMeter:
    """Accumulates the measures of one module's heads over batches.

    CKA and SVCCA are computed from the moments of the heads' outputs at real query positions (Yun
    et al. 2021, section 3). JSD and entropy use the attention weights.

    Args:
        first: head states of the first batch, whose outputs have the shape and the device of all.
            They are not yet added.
        measures: keys of ``MEASURES``.
        threshold: share of the variance that SVCCA keeps.
    """

    def __init__(self, first: HeadStates, measures: tuple[str, ...], threshold: float):
        outputs = first.required("outputs")
        self.measures = measures
        self.threshold = threshold
        self.num_heads = outputs.size(1)
        self.moments = Moments(outputs.size(1) * outputs.size(3), outputs.device)
        self._norms = NormMoments(self.num_heads)
        self._divergence = torch.zeros(self.num_heads, self.num_heads, dtype=torch.float64)
        self._sentences = 0
        self._entropy = torch.zeros(self.num_heads, dtype=torch.float64)
        self._sharp = torch.zeros(self.num_heads, dtype=torch.float64)
        self._disagreement = np.zeros((3, 3))

    def update(self, states: HeadStates) -> None:
        """Add the head states of a batch."""
        rows = real_rows(states)
        paddings = states.query_padding_mask, states.key_padding_mask
        self.moments.update(rows)
        if "cka" in self.measures:
            self._norms.update(rows)
        if "jsd" in self.measures:
            total, _, sentences = divergence_sums(states.required("weights"), *paddings)
            self._divergence += total.cpu()
            self._sentences += sentences
        if "entropy" in self.measures:
            entropy, sharp, _ = entropy_sums(states.required("weights"), *paddings)
            self._entropy += entropy.cpu()
            self._sharp += sharp.cpu()
        if "disagreement" in self.measures:
            self._disagreement += disagreement_sums(states)

    @property
    def positions(self) -> int:
        """Number of real query positions so far."""
        return self.moments.count

    def result(self, numbers: HeadNumbers) -> Layer:
        """Return the selected ones of CKA, SVCCA, JSD and entropy, in the order of ``measures``.

        CKA is None with fewer than ``FEWEST`` positions. SVCCA is None unless there are more
        positions than kept directions in every pair of heads.

        Args:
            numbers: the numbers of the module's heads.
        """
        blocks = split_heads(self.moments.scatter().cpu(), self.num_heads)
        layer = Layer()
        for measure in self.measures:
            if measure == "cka":
                cka = self._cka(blocks) if self.positions >= FEWEST else None
                layer["cka"] = cka and numbers.number(cka)
            elif measure == "svcca":
                svcca = svcca_pairs(blocks, self.positions, self.threshold)
                layer["svcca"] = svcca and numbers.number(svcca)
            elif measure == "jsd":
                layer["jsd"] = numbers.number(self._jsd())
            elif measure == "entropy":
                layer["entropy"] = numbers.number(self._sharpness())
        return layer

    def disagreement(self) -> np.ndarray:
        """Return, for each of ``SCORES``, D, and D over the pairs i != j: (3, 2)."""
        return self._disagreement[:, :2] / self._disagreement[:, 2:]

    def _cka(self, blocks: Tensor) -> Cka:
        """Return biased and unbiased CKA of every pair; unbiased CKA needs four positions."""
        within = blocks.diagonal(dim1=0, dim2=1).permute(2, 0, 1)  # (H, D, D)
        biased = cka_from_scatter(within.unsqueeze(1), blocks, within.unsqueeze(0))
        pairs, mean = None, None
        if self.positions > FEWEST:
            unbiased = unbiased_cka(blocks, self._norms.result(self.moments).cpu(), self.positions)
            pairs, mean = unbiased.tolist(), mean_of_pairs(unbiased)
        return Cka(mean_of_pairs(biased), biased.tolist(), mean, pairs)

    def _jsd(self) -> Divergence:
        by_sentence, by_row = self._divergence / self._sentences, self._divergence / self.positions
        means = mean_of_pairs(by_sentence), mean_of_pairs(by_row)
        return Divergence(*means, by_sentence.tolist(), by_row.tolist())

    def _sharpness(self) -> Sharpness:
        by_head, shares = self._entropy / self.positions, self._sharp / self.positions
        heads = by_head.tolist(), shares.tolist()
        return Sharpness(float(by_head.mean()), heads[0], float(shares.mean()), heads[1])


def split_heads(scatter: Tensor, num_heads: int) -> Tensor:
    """Split a scatter matrix (H * D, H * D) into a block for each pair of heads: (H, H, D, D)."""
    width = scatter.size(0) // num_heads
    return scatter.view(num_heads, width, num_heads, width).transpose(1, 2)


def mean_of_pairs(matrix: Tensor) -> float | None:
    """Return the mean of a matrix (H, H) above the diagonal; None with one head."""
    size = matrix.size(0)
    i, j = torch.triu_indices(size, size, 1)
    return float(matrix[i, j].mean()) if size > 1 else None


def svcca_pairs(blocks: Tensor, count: int, threshold: float) -> Svcca | None:
    """Return SVCCA of every pair of heads from scatter blocks (H, H, D, D)."""
    num_heads = blocks.size(0)
    directions = [kept_directions(blocks[h, h], threshold) for h in range(num_heads)]
    # A head's similarity to itself is 1, or 0 if its output is constant.
    pairs = torch.diag(
        torch.tensor([float(k.size(1) > 0) for k in directions], dtype=torch.float64)
    )
    top_pairs = pairs.clone()
    coefficients = {}
    for i, j in combinations(range(num_heads), 2):
        similarity = svcca_from_scatter(directions[i], blocks[i, j], directions[j], count)
        if similarity is None:
            return None
        pairs[i, j] = pairs[j, i] = similarity.mean
        top_pairs[i, j] = top_pairs[j, i] = similarity.top_mean
        coefficients[f"{i + 1}-{j + 1}"] = similarity.coefficients.tolist()
    kept = [k.size(1) for k in directions]
    means = mean_of_pairs(pairs), mean_of_pairs(top_pairs)
    return Svcca(*means, pairs.tolist(), top_pairs.tolist(), coefficients, kept, threshold)


# Measure -> attribute to average -> suffix of ``last`` and ``mean`` in the summary.
KEYS = {
    "jsd": {"mean": "", "per_row": "_per_row"},
    "entropy": {"mean": "", "share_above": "_share_above_0.95"},
    "svcca": {"mean": "", "top_mean": "_top"},
    "cka": {"mean": "", "unbiased_mean": "_unbiased"},
}


class HeadsMeter:
    """Accumulates the measures of attention modules over batches.

    Args:
        sites: the modules.
        measures: keys of ``MEASURES``.
        threshold: share of the variance that SVCCA keeps.
    """

    def __init__(
        self, sites: Sequence[Site], measures: tuple[str, ...], threshold: float = THRESHOLD
    ):
        self._sites, self._measures, self._threshold = sites, measures, threshold
        self.modules: dict[str, dict[int, ModuleMeter]] = {}  # empty before the first batch

    def update(self, head_states: dict[str, list[HeadStates]]) -> None:
        """Add the head states of a batch."""
        for site in self._sites:
            states = head_states[site.component][site.number - 1]
            meters = self.modules.setdefault(site.component, {})
            if site.number not in meters:
                meters[site.number] = ModuleMeter(states, self._measures, self._threshold)
            meters[site.number].update(states)

    def means(self) -> dict[tuple[str, int], Tensor]:
        """Return (component, layer) -> mean output of every head, (H, D) float64."""
        return {
            (component, number): meter.moments.mean.view(meter.num_heads, -1)
            for component, meters in self.modules.items()
            for number, meter in meters.items()
        }

    def result(self) -> Heads:
        """Return the measures of all modules."""
        components: dict[str, Component] = {}
        for site in self._sites:
            meter, heads = self.modules[site.component][site.number], site.numbers
            empty = Component(heads.total, meter.positions, {})
            entry = components.setdefault(site.component, empty)
            entry.layers[str(site.number)] = meter.result(heads)
            if heads.pruned:
                entry.pruned = (entry.pruned or {}) | {str(site.number): heads.pruned}
        result = Heads(components, summarise(components))
        if "disagreement" in self._measures:
            result.disagreement = {
                component: disagreement_result(np.stack([m.disagreement() for m in own.values()]))
                for component, own in self.modules.items()
            }
        return result


def summarise(components: dict[str, Component]) -> dict[str, dict[str, float | None]]:
    """Return measure -> name -> mean over modules.

    ``last`` is the mean over the last selected layer of each component. ``mean`` is the mean over
    all selected modules (as Zheng et al. 2021 do for JSD). A measure with further values adds the
    suffixes in ``KEYS`` to these names. A mean is None if no module has a value.
    """
    summary: dict[str, dict[str, float | None]] = {}
    for measure in next(iter(next(iter(components.values())).layers.values())):
        summary[measure] = {}
        for key, suffix in KEYS.get(measure, {"mean": ""}).items():
            rows = [
                [value_of(layer, measure, key) for layer in entry.layers.values()]
                for entry in components.values()
            ]
            summary[measure]["last" + suffix] = mean([row[-1] for row in rows])
            summary[measure]["mean" + suffix] = mean([value for row in rows for value in row])
    return summary


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
