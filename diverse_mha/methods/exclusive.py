"""Exclusive attention: outputs without the position's own value (Zhai 2026)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diverse_mha.attention.core import check_head_count
from diverse_mha.attention.head_tensors import full_precision, wide_range
from diverse_mha.attention.registries import AGGREGATION
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import Method, Place
from diverse_mha.common.ranges import COUNT

SMALLEST = 1e-12  # squared length below which a value has no direction


class Exclusive(nn.Linear):
    """Subtracts from each head's output its part along the position's own value, then projects.

    Choose it to let self-attention collect only what a position does not know of itself. It has no
    parameters, and is only for self-attention.

    Zhai 2026 (arXiv 2603.09078), for self-attention, with y a head's output and v its value at the
    same position::

        z = y - (y . v) v / ||v||^2        result = [z_1, ..., z_H] W + b

    For a value of length 0 nothing is subtracted. float16 is computed in float32, where squares of
    values stay in range. The projection keeps its parameter names.

    Args:
        embed_dim: C, the width of the head outputs and of the result.
        num_heads: H, a divisor of C.

    Example:
        >>> import torch
        >>> exclusive = Exclusive(4, 1)
        >>> _ = exclusive.weight.data.copy_(torch.eye(4))  # no projection
        >>> outputs, values = torch.randn(1, 3, 4), torch.randn(1, 1, 3, 4)
        >>> rest = exclusive(outputs, values)
        >>> (rest * values[:, 0]).sum(dim=-1).abs().max().item() < 1e-5  # perpendicular to values
        True
    """

    sees_values = True

    def __init__(self, embed_dim: int, num_heads: int):
        COUNT.check("num_heads", num_heads)
        check_head_count(embed_dim, num_heads)
        super().__init__(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    # An aggregation that sees more takes more than a Linear does, whose other habits it keeps.
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, head_outputs: Tensor, values: Tensor
    ) -> Tensor:
        """Project (B, T, C); ``values`` are those of the same positions, (B, H, T, D)."""
        values = values.transpose(1, 2)  # (B, T, H, D)
        heads = head_outputs.unflatten(-1, values.shape[2:])
        y, v = wide_range(heads), wide_range(values)
        with full_precision(values):  # autocast would round the products to float16 again
            along = torch.linalg.vecdot(y, v).unsqueeze(-1)  # (B, T, H, 1)
            length = torch.linalg.vecdot(v, v).unsqueeze(-1).clamp_min(SMALLEST)
            rest = (y - v * (along / length)).to(heads.dtype)
        return F.linear(rest.flatten(-2), self.weight, self.bias)


def _build(options, place: Place) -> Exclusive:
    return Exclusive(place.embed_dim, place.num_heads)


def _check(options, place: Place) -> None:
    if place.component == "cross":
        raise UserError(
            Option("aggregation", "exclusive"),
            ": a query of the encoder-decoder attention has no value of its own; leave out ",
            Option("aggregation_cross_layers"),
        )


AGGREGATION.register(
    Method(
        "exclusive",
        "exclusive (outputs without the position's own value, Zhai 2026)",
        _build,
        check=_check,
        head_axes={},
    )
)
