"""The scores exp(D) of Li et al. 2018, Tables 4 and 5, over a whole data set."""

import math
from collections import defaultdict
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
    """

    def __init__(self):
        self._sums = defaultdict(float)  # (component, layer, score) -> D * count
        self._counts = defaultdict(int)

    def update(self, head_states: dict[str, list["HeadStates"]]) -> None:
        """Add the states of a batch; ``STATES`` names what must be in them."""
        for component, layers in head_states.items():
            for layer, s in enumerate(layers):
                queries, keys = s.query_padding_mask, s.key_padding_mask
                self._add(
                    (component, layer, "subspace"),
                    subspace_disagreement(s.values, keys),
                    _real(keys, s.values),
                )
                self._add(
                    (component, layer, "position"),
                    position_disagreement(s.weights, queries, keys, reduction="sentence"),
                    s.weights.size(0),
                )
                self._add(
                    (component, layer, "output"),
                    output_disagreement(s.outputs, queries),
                    _real(queries, s.outputs),
                )

    def _add(self, key: tuple[str, int, str], mean: Tensor, count: int) -> None:
        self._sums[key] += float(mean) * count
        self._counts[key] += count

    def result(self) -> dict[str, dict[str, dict]]:
        """Return ``{component: {score: {"layers": [...], "all": ...}}}``.

        ``layers`` holds exp(D) of each layer (Table 5), ``all`` exp of D averaged
        over the layers (Table 4). In (0, 1], higher = more diverse.
        """
        d = defaultdict(lambda: defaultdict(list))
        for component, layer, score in sorted(self._sums):
            key = (component, layer, score)
            d[component][score].append(self._sums[key] / self._counts[key])
        return {
            component: {
                score: {
                    "layers": [math.exp(value) for value in values],
                    "all": math.exp(sum(values) / len(values)),
                }
                for score, values in scores.items()
            }
            for component, scores in d.items()
        }


def _real(padding_mask: Tensor | None, x: Tensor) -> int:
    """Number of real positions of (B, H, L, D) states."""
    if padding_mask is None:
        return x.size(0) * x.size(2)
    return int((~padding_mask).sum())
