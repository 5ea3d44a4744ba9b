"""Mean squared cosine between the vectors of different heads."""

import torch
from torch import Tensor

from .checks import check_heads, check_padding_mask, full_precision
from .cosine import unit_vectors
from .weights import real_position_weights


def mean_squared_cosine(x: Tensor, padding_mask: Tensor | None = None, *, name="x") -> Tensor:
    """Mean over real positions of (1/(H(H-1))) sum_{i != j} cos(x_i, x_j)^2.

    All squared cosines of a position are those of one H x H product of its unit vectors.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        name: what messages call ``x``.

    Returns:
        Scalar, float32 (float64 for float64), in [0, 1]; 0 = perpendicular heads. The cosine
        with a zero vector is taken as 0; 0 for one head or no real position.

    Raises:
        ValueError: if a shape or dtype is not as above.
    """
    check_heads(name, x, "(B, H, S, D)")
    check_padding_mask("padding_mask", padding_mask, torch.Size((x.size(0), x.size(2))))
    units = unit_vectors(x, padding_mask).transpose(1, 2)  # (B, S, H, D)
    with full_precision(x):
        cosines = units @ units.transpose(2, 3)  # (B, S, H, H)
    others = 1.0 - torch.eye(x.size(1)).to(units)
    squares = (cosines * others).square().sum(dim=(2, 3))  # (B, S)
    pairs = max(1, x.size(1) * (x.size(1) - 1))
    return (squares * real_position_weights(padding_mask, squares, squares.shape)).sum() / pairs
