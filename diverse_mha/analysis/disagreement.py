"""Scores exp(D) of Li et al. 2018, Tables 4 and 5, over a data set."""

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from diverse_mha.attention import HeadStates
from diverse_mha.methods.disagreement import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)

SCORES = ("subspace", "position", "output")
OFF_DIAGONAL = ("off-diagonal",)


class DisagreementMeter:
    """Accumulates D over batches; the result does not depend on how they are cut.

    Subspace and output are averaged over positions, position over sentences, as
    the paper's reported scores are (see ``disagreement_scores``).

    The sums of Li et al. hold the pairs i = j, where a cosine is 1 whatever the heads do. Over
    the H (H - 1) pairs i != j alone perpendicular heads score 1 (docs/analysis.md).
    """

    def __init__(self):
        # By component, layer and score: D and D off the diagonal, times count; count.
        self._sums = defaultdict(lambda: np.zeros(3))

    def update(self, head_states: dict[str, list[HeadStates]]) -> None:
        """Add the states of a batch: values, weights and outputs."""
        for component, layers in head_states.items():
            for layer, states in enumerate(layers):
                one_head = states.outputs.size(1) == 1
                terms = zip(SCORES, _terms(states), _terms(states, OFF_DIAGONAL), strict=True)
                for score, (both, count), (others, _) in terms:
                    others = math.nan if one_head else others
                    self._sums[component, layer, score] += (both * count, others * count, count)

    def result(self) -> dict[str, dict[str, dict]]:
        """Return ``{component: {score: {"layers", "all", "off_diagonal": {"layers", "all"}}}}``.

        ``layers`` holds exp(D) of each layer (Table 5), ``all`` exp of D averaged
        over the layers (Table 4). In (0, 1], higher = more diverse. ``off_diagonal``: the same
        over the pairs i != j, in (0, exp(1 / (H - 1))]; None with one head.
        """
        d = defaultdict(lambda: defaultdict(list))
        for component, layer, score in sorted(self._sums):
            *sums, count = self._sums[component, layer, score].tolist()
            d[component][score].append([value / count for value in sums])
        return {
            component: {
                score: _scores([both for both, _ in values])
                | {"off_diagonal": _scores([others for _, others in values])}
                for score, values in scores.items()
            }
            for component, scores in d.items()
        }


def _terms(states: HeadStates, form: tuple[str, ...] = ()) -> Iterator[tuple[float, int]]:
    """Return D of a batch by ``SCORES``, and how many positions or sentences it averages."""
    queries, keys = states.query_padding_mask, states.key_padding_mask
    subspace = subspace_disagreement(states.values, keys, form=form)
    position = position_disagreement(states.weights, queries, keys, "sentence", form)
    output = output_disagreement(states.outputs, queries, form=form)
    yield float(subspace), _real(keys, states.values)
    yield float(position), states.weights.size(0)
    yield float(output), _real(queries, states.outputs)


def _scores(d: list[float]) -> dict:
    """Return exp(D) of each layer, and exp of their mean; None without D."""
    if any(map(math.isnan, d)):
        return {"layers": [None] * len(d), "all": None}
    return {"layers": [math.exp(value) for value in d], "all": math.exp(sum(d) / len(d))}


def _real(padding_mask: Tensor | None, x: Tensor) -> int:
    """Return the number of real positions of states (B, H, L, D)."""
    if padding_mask is None:
        return x.size(0) * x.size(2)
    return int((~padding_mask).sum())
