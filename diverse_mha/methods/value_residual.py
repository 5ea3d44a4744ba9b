"""Value residual: every layer also attends to the values of the first (Zhou et al. 2024)."""

import torch
from torch import Tensor, nn

from diverse_mha.attention.registries import PROJECTIONS, ProjectionMap
from diverse_mha.common.options import Method, Place


class ValueResidual(ProjectionMap):
    """The values of a layer and those of layer 1, added with learnt weights.

    Choose it for deep models, whose upper layers otherwise see the input only through the layers
    below. A model starts unchanged.

    Zhou et al. 2024 (arXiv 2410.17897), ResFormer with learnt weights::

        V'_l = a_l V_l + b_l V_1        l > 1

    with V_l the values of layer l, and V_1 those of layer 1 in the same component. a starts at 1
    and b at 0, so that a model starts unchanged; the paper's initial values could not be checked.
    Layer drop trains parts of the model: in each, the first layer that runs takes the place of
    layer 1, and nothing is added to its values.

    Example:
        >>> import torch
        >>> residual = ValueResidual()
        >>> _ = residual.first.data.fill_(0.5)  # b
        >>> keys, values, first = (torch.full((1, 4, 5, 8), x) for x in (1.0, 2.0, 4.0))
        >>> residual.keys_values(keys, values, first)[1].mean().item()  # 1 * 2 + 0.5 * 4
        4.0
    """

    adds_first = True

    def __init__(self):
        super().__init__()
        self.own = nn.Parameter(torch.ones(()))  # a
        self.first = nn.Parameter(torch.zeros(()))  # b

    def keys_values(
        self, keys: Tensor, values: Tensor, first: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the keys as they are, and a V + b V_1, (B, H, S, D)."""
        if first is None:
            raise ValueError("value residual needs the values of layer 1; pass them as first")
        own, residual = (x.to(values.dtype) for x in (self.own, self.first))
        return keys, own * values + residual * first.to(values.dtype)


def _build(options, place: Place) -> ValueResidual | None:
    return ValueResidual() if place.number > 1 else None


PROJECTIONS.register(
    Method(
        "value-residual",
        "value-residual (add the values of layer 1, Zhou et al. 2024)",
        _build,
        carries=True,
    )
)
