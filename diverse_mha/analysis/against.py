"""Cross-model similarity (``--against``): SVCCA and CKA between the heads of two models."""

from collections.abc import Sequence

import torch

from diverse_mha.analysis.results import Similarity
from diverse_mha.analysis.similarity import mean, real_rows
from diverse_mha.analysis.sites import components_of
from diverse_mha.attention import HeadStates
from diverse_mha.attention.sites import Site
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.protocol import AnyAdapter
from diverse_mha.measures.moments import Moments
from diverse_mha.measures.similarity import (
    FEWEST,
    THRESHOLD,
    cka_from_scatter,
    kept_directions,
    svcca_from_scatter,
)


def check_same_data(model: AnyAdapter, other: AnyAdapter, sites: Sequence[Site]) -> None:
    """Raise an error if ``other`` reads other data, or lacks a component of ``sites``."""
    lacking = {*components_of(sites)} - {*components_of(other.sites)}
    if lacking or not model.reads_like(other):
        raise UserError(
            f"--against {other.path}: does not read the same data as {model.path}; give a model "
            "of the same task and languages"
        )


class AgainstMeter:
    """Similarity of each component's last layer to the last layer of another model.

    Follows Yun et al. 2021, Table 2. At the same positions, the concatenated heads of the other
    model are compared with all heads of the model, concatenated, and with each of them alone.

    Args:
        sites: modules of the model; their components are compared.
        threshold: share of the variance that SVCCA keeps.
    """

    def __init__(self, sites: Sequence[Site], threshold: float = THRESHOLD):
        self._components, self._threshold = components_of(sites), threshold
        self._moments: dict[str, Moments] = {}
        self._shape: dict[str, tuple[int, int, int]] = {}  # width, heads, layers

    def update(
        self, states: dict[str, list[HeadStates]], other: dict[str, list[HeadStates]]
    ) -> None:
        """Add the head outputs of both models for a batch."""
        for component in self._components:
            outputs = real_rows(states[component][-1])
            rows = torch.cat((outputs, real_rows(other[component][-1]).to(outputs)), dim=1)
            if component not in self._moments:
                self._moments[component] = Moments(rows.size(1), rows.device)
                heads = states[component][-1].required("outputs").size(1)
                self._shape[component] = (outputs.size(1), heads, len(states[component]))
            self._moments[component].update(rows)

    def result(self) -> dict[str, Similarity]:
        """Return component -> similarity; values are None if there are too few positions."""
        threshold, results = self._threshold, {}
        for component, moments in self._moments.items():
            width, heads, layer = self._shape[component]
            scatter = moments.scatter().cpu()
            xx, xy, yy = scatter[:width, :width], scatter[:width, width:], scatter[width:, width:]
            other = kept_directions(yy, threshold)
            together = svcca_from_scatter(kept_directions(xx, threshold), xy, other, moments.count)
            each = []
            for part in torch.arange(width).chunk(heads):
                kept = kept_directions(xx[part][:, part], threshold)
                alike = svcca_from_scatter(kept, xy[part], other, moments.count)
                each.append(None if alike is None else alike.mean)
            results[component] = Similarity(
                layer,
                svcca=None if together is None else together.mean,
                svcca_top=None if together is None else together.top_mean,
                svcca_each=None if None in each else mean(each),
                svcca_heads=each,
                cka=float(cka_from_scatter(xx, xy, yy)) if moments.count >= FEWEST else None,
                coefficients=None if together is None else together.coefficients.tolist(),
            )
        return results
