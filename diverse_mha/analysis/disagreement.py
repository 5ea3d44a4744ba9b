"""The scores exp(D) of Li et al. 2018, Tables 4 and 5, over a whole data set."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from diverse_mha.regularizers import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)

if TYPE_CHECKING:  # the attention module imports fairseq
    from diverse_mha.attention import HeadStates

SCORES = ("subspace", "position", "output")
STATES = ("values", "weights", "outputs")


class DisagreementMeter:
    """Accumulates D over batches; the result does not depend on how they are cut.

    Subspace and output are averaged over positions, position over sentences, as
    the paper's reported scores are (see ``disagreement_scores``).

    The sums of Li et al. hold the pairs i = j, where a cosine is 1 whatever the heads do. Over
    the H (H - 1) pairs i != j alone perpendicular heads score 1 (docs/analysis.md).
    """

    def __init__(self):
        self._sums = defaultdict(float)  # (component, layer, score) -> D * count
        self._own = defaultdict(float)  # the same of the pairs i = j
        self._counts = defaultdict(int)
        self._heads: dict[tuple[str, int, str], int] = {}

    def update(self, head_states: dict[str, list["HeadStates"]]) -> None:
        """Add the states of a batch; ``STATES`` names what must be in them."""
        for component, layers in head_states.items():
            for layer, states in enumerate(layers):
                heads = states.outputs.size(1)
                for score, mean, count in _terms(states):
                    key = (component, layer, score)
                    self._sums[key] += mean * count
                    self._counts[key] += count
                    self._heads[key] = heads
                # Where every head is a sentence of its own, its only pair is that with itself.
                for score, mean, count in _terms(_one_by_one(states)):
                    self._own[component, layer, score] += mean * count / heads**2

    def result(self) -> dict[str, dict[str, dict]]:
        """Return ``{component: {score: {"layers", "all", "off_diagonal": {"layers", "all"}}}}``.

        ``layers`` holds exp(D) of each layer (Table 5), ``all`` exp of D averaged
        over the layers (Table 4). In (0, 1], higher = more diverse. ``off_diagonal``: the same
        over the pairs i != j, in (0, exp(1 / (H - 1))]; None with one head.
        """
        d = defaultdict(lambda: defaultdict(list))
        for key in sorted(self._sums):
            component, _, score = key
            d[component][score].append((self._mean(key), self._off_diagonal(key)))
        return {
            component: {
                score: _scores([both for both, _ in values])
                | {"off_diagonal": _scores([others for _, others in values])}
                for score, values in scores.items()
            }
            for component, scores in d.items()
        }

    def _mean(self, key: tuple[str, int, str]) -> float:
        return self._sums[key] / self._counts[key]

    def _off_diagonal(self, key: tuple[str, int, str]) -> float | None:
        heads = self._heads[key]
        if heads == 1:
            return None
        others = self._sums[key] - self._own[key]  # of -1/H^2 sum_{i != j}
        return others / self._counts[key] * heads / (heads - 1)


def _terms(states: "HeadStates") -> Iterator[tuple[str, float, int]]:
    """Each score's D of a batch, and of how many positions or sentences it is the mean."""
    queries, keys = states.query_padding_mask, states.key_padding_mask
    subspace = subspace_disagreement(states.values, keys)
    position = position_disagreement(states.weights, queries, keys, reduction="sentence")
    output = output_disagreement(states.outputs, queries)
    yield "subspace", float(subspace), _real(keys, states.values)
    yield "position", float(position), states.weights.size(0)
    yield "output", float(output), _real(queries, states.outputs)


def _one_by_one(states: "HeadStates") -> "HeadStates":
    """Every head as a sentence of its own: (B, H, ...) to (B * H, 1, ...), the masks too."""

    def split(x: Tensor) -> Tensor:
        return x.flatten(0, 1).unsqueeze(1)

    def repeat(mask: Tensor | None) -> Tensor | None:
        return None if mask is None else mask.repeat_interleave(states.outputs.size(1), dim=0)

    return states._replace(
        values=split(states.values),
        weights=split(states.weights),
        outputs=split(states.outputs),
        query_padding_mask=repeat(states.query_padding_mask),
        key_padding_mask=repeat(states.key_padding_mask),
    )


def _scores(d: list[float | None]) -> dict:
    """exp(D) of each layer, and exp of their mean."""
    if None in d:
        return {"layers": [None] * len(d), "all": None}
    return {"layers": [math.exp(value) for value in d], "all": math.exp(sum(d) / len(d))}


def _real(padding_mask: Tensor | None, x: Tensor) -> int:
    """Number of real positions of (B, H, L, D) states."""
    if padding_mask is None:
        return x.size(0) * x.size(2)
    return int((~padding_mask).sum())
