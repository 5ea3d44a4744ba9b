"""Mean squared cosine between the vectors of different heads, with its own backward pass."""

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import (
    check_heads,
    check_padding_mask,
    compute_dtype,
    full_precision,
    real_position_weights,
)
from diverse_mha.common.first_order import first_order_only
from diverse_mha.methods.disagreement.cosine import inverse_of


def mean_squared_cosine(x: Tensor, padding_mask: Tensor | None = None, *, name="x") -> Tensor:
    """Mean over real positions of (1/(H(H-1))) sum_{i != j} cos(x_i, x_j)^2.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        name: of ``x`` in messages.

    Returns:
        Scalar, float32 (float64 for float64), in [0, 1]; 0 = perpendicular heads, one head, zero
        vectors or no real position. Differentiable once.
    """
    check_heads(name, x, "(B, H, S, D)")
    shape = torch.Size((x.size(0), x.size(2)))
    check_padding_mask("padding_mask", padding_mask, shape)
    weights = real_position_weights(padding_mask, x.new_empty((), dtype=compute_dtype(x)), shape)
    return _MeanSquaredCosine.apply(x, weights, padding_mask)


def _units(x: Tensor, inverse: Tensor) -> Tensor:
    """Return unit vectors (B, S, H, D), in the dtype of the inverse norms (B, H, S)."""
    return (x.to(inverse.dtype) * inverse.unsqueeze(-1)).transpose(1, 2)


class _MeanSquaredCosine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, position_weights: Tensor, padding_mask: Tensor | None) -> Tensor:
        inverse = inverse_of(torch.linalg.vector_norm(x, dim=-1, dtype=position_weights.dtype))
        units = _units(x, inverse)
        with full_precision(x):
            cosines = units @ units.transpose(2, 3)  # (B, S, H, H)
        cosines.diagonal(dim1=2, dim2=3).zero_()
        if padding_mask is not None:
            cosines.masked_fill_(padding_mask[:, :, None, None], 0.0)
        pairs = max(1, x.size(1) * (x.size(1) - 1))
        ctx.save_for_backward(x, inverse, cosines, position_weights / pairs, padding_mask)
        return (cosines.square().sum(dim=(2, 3)) * position_weights).sum() / pairs

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        """(g - u (u.g)) / ||x||, with u the unit vectors and g = 4 C u that for them."""
        x, inverse, cosines, scale, padding_mask = ctx.saved_tensors
        units = _units(x, inverse)
        if padding_mask is not None:
            units = units.masked_fill(padding_mask[:, :, None, None], 0.0)
        with full_precision(x):
            grad_x = (cosines @ units).mul_((4.0 * grad * scale)[:, :, None, None])
        grad_x = grad_x - units * torch.linalg.vecdot(units, grad_x).unsqueeze(-1)
        grad_x = grad_x.transpose(1, 2) * inverse.unsqueeze(-1)
        if padding_mask is not None:
            grad_x.masked_fill_(padding_mask[:, None, :, None], 0.0)
        return grad_x.to(x.dtype), None, None
