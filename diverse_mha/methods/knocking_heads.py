"""Knocking heads: one projection that the values of all heads share (Zhou et al. 2025)."""

import torch
from torch import Tensor, nn

from diverse_mha.attention.registries import PROJECTIONS, ProjectionMap
from diverse_mha.common.options import Method, Place
from diverse_mha.common.ranges import COUNT


class KnockingHeads(ProjectionMap):
    """The values of every head go through the same matrix T.

    Choose it to let heads share a part of their values at no cost after training: :func:`fold`
    turns it into a stock model.

    Zhou et al. 2025 (arXiv 2510.23052), the linear form on the values, which the paper finds more
    important than the forms on queries and keys::

        V'_h = V_h T        V_h: values of head h; T (D, D): one for all heads of a module

    T starts diagonal, here as the identity, so that the heads start unchanged. The product of two
    linear maps is linear, so :func:`fold` turns the trained model into a stock model.

    Args:
        head_dim: D.

    Example:
        >>> import torch
        >>> knocking = KnockingHeads(2)
        >>> _ = knocking.shared.data.mul_(3)
        >>> keys, values = torch.ones(1, 4, 5, 2), torch.ones(1, 4, 5, 2)  # (B, H, S, D)
        >>> [x.mean().item() for x in knocking.keys_values(keys, values, None)]
        [1.0, 3.0]
    """

    def __init__(self, head_dim: int):
        super().__init__()
        COUNT.check("head_dim", head_dim)
        self.shared = nn.Parameter(torch.eye(head_dim))  # T

    def keys_values(
        self, keys: Tensor, values: Tensor, first: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the keys as they are, and V T, (B, H, S, D)."""
        return keys, values @ self.shared.to(values.dtype)


def _build(options, place: Place) -> KnockingHeads:
    return KnockingHeads(place.embed_dim // place.num_heads)


def fold(parameters: dict[str, Tensor]) -> None:
    """Multiply T into the value projection, in place; ``parameters`` are an attention module's."""
    shared = parameters.pop("projections.shared", None)
    if shared is None:  # a component without the method
        return
    for name in ("v_proj.weight", "v_proj.bias"):
        if name in parameters:
            heads = parameters[name].unflatten(0, (-1, shared.size(0)))  # (H, D, ...)
            folded = torch.einsum("hd...,de->he...", heads.double(), shared.double())
            parameters[name] = folded.flatten(0, 1).to(parameters[name].dtype)


PROJECTIONS.register(
    Method(
        "knocking-heads",
        "knocking-heads (one matrix for the values of all heads, Zhou et al. 2025)",
        _build,
        fold=fold,
        head_axes={},
    )
)
