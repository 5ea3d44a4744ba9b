"""Mean cosine, or squared cosine, of pairs of head vectors, with hand-written backward passes."""

import torch
from torch import Tensor

from diverse_mha.attention.core import launches_cost
from diverse_mha.attention.first_order import first_order_only
from diverse_mha.attention.head_tensors import (
    full_precision,
    overflow_to_nan,
    position_weights,
)

ZERO_NORM = 1e-12  # vectors up to this norm count as zero


def inverse_of(norms: Tensor) -> Tensor:
    """Return 1 / norms; 0 for zero vectors, and NaN for norms that overflow."""
    return overflow_to_nan(norms).reciprocal().masked_fill_(norms <= ZERO_NORM, 0.0)


def mean_pairwise_cosine(
    x: Tensor,
    padding_mask: Tensor | None = None,
    *,
    off_diagonal: bool = False,
    name: str = "x",
) -> Tensor:
    """Mean over real positions of (1/H^2) sum_ij cos(x_i, x_j), including the pairs i = j.

    With ``off_diagonal``, the mean of (1/(H(H-1))) sum_{i != j} cos(x_i, x_j).

    Use it to write a term on vectors of your own, at a cost that is linear in the number of heads.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        off_diagonal: leave the pairs i = j out.
        name: name of ``x`` in messages.

    Returns:
        Scalar, float32 (float64 for float64), lower = more diverse. It is in [0, 1], and 1/H for
        perpendicular heads. With ``off_diagonal`` it is in [-1/(H-1), 1], and 0 for perpendicular
        heads or one head. Without a real position it is 0.

    Example:
        >>> import torch
        >>> heads = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).view(1, 3, 1, 2)
        >>> mean = mean_pairwise_cosine(heads, off_diagonal=True)  # of 0, 0.707 and 0.707
        >>> round(mean.item(), 3)
        0.471
    """
    weights = position_weights(name, x, padding_mask)
    return MeanPairwiseCosine.apply(x, weights, padding_mask, off_diagonal)


class MeanPairwiseCosine(torch.autograd.Function):
    """Weighted mean over positions of the mean of cos(x_i, x_j) over pairs of heads.

    The double sum equals ||sum_h x_h / ||x_h|| ||^2 / H^2, so the cost is linear in H. The backward
    pass keeps x, the inverse norms of x and one sum (B, S, D).
    """

    @staticmethod
    def forward(
        ctx, x: Tensor, position_weights: Tensor, padding_mask: Tensor | None, off_diagonal: bool
    ) -> Tensor:
        """Compute ``mean_pairwise_cosine`` in the dtype of the position weights (B, S)."""
        heads, num_heads = x.to(position_weights.dtype), x.size(1)
        norms = torch.linalg.vector_norm(heads, dim=-1)  # (B, H, S)
        inverse = inverse_of(norms)
        if launches_cost(x.device):
            total = (heads * inverse.unsqueeze(-1)).sum(dim=1)
        else:  # head by head, so that the sum stays in cache
            total = heads.new_zeros(x.shape[:1] + x.shape[2:])  # (B, S, D)
            for head, scale in zip(heads.unbind(1), inverse.unbind(1), strict=True):
                total.addcmul_(head, scale.unsqueeze(-1))
            # Padding has weight 0, which is enough unless x is NaN or infinite there. Checking
            # that is cheaper than filling padding with zeros.
            if bool(norms.sum().isfinite()):
                padding_mask = None
        if padding_mask is not None:
            total.masked_fill_(padding_mask.unsqueeze(-1), 0.0)
        ctx.save_for_backward(x, inverse, total, position_weights, padding_mask)
        with full_precision(x):
            sums = torch.linalg.vecdot(total, total)  # (B, S)
        ctx.pairs = num_heads**2
        if off_diagonal:
            sums -= inverse.count_nonzero(dim=1)  # cos(x_i, x_i) is 1, or 0 for a zero vector
            ctx.pairs = max(1, num_heads * (num_heads - 1))
        return (sums * position_weights).sum() / ctx.pairs

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        """Gradient for x: (g - u (u.g)) / ||x||, with u = x / ||x|| and g the gradient for u."""
        x, inverse, total, position_weights, padding_mask = ctx.saved_tensors
        # (B, S, H, D): the order of projections in memory.
        heads, inverse = x.transpose(1, 2).to(total.dtype), inverse.transpose(1, 2).unsqueeze(-1)
        scale = position_weights * (grad * (2.0 / ctx.pairs))  # (B, S)
        grad_unit = (total * scale.unsqueeze(-1)).unsqueeze(2)  # (B, S, 1, D)
        with full_precision(x):
            along = heads @ grad_unit.transpose(2, 3)  # (B, S, H, 1)
        # One by one, as inverse ** 3 may overflow.
        along = along.mul_(inverse).mul_(inverse).mul_(inverse)
        grad_x = (grad_unit * inverse).addcmul_(heads, along, value=-1.0)
        if padding_mask is not None:
            grad_x.masked_fill_(padding_mask[:, :, None, None], 0.0)
        return grad_x.to(x.dtype).transpose(1, 2), None, None, None


def mean_squared_cosine(
    x: Tensor, padding_mask: Tensor | None = None, *, name: str = "x"
) -> Tensor:
    """Mean over real positions of (1/(H(H-1))) sum_{i != j} cos(x_i, x_j)^2.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        name: name of ``x`` in messages.

    Returns:
        Scalar, float32 (float64 for float64), in [0, 1]; 0 = perpendicular heads, one head, zero
        vectors or no real position. Differentiable once.
    """
    weights = position_weights(name, x, padding_mask)
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
        """Gradient for x: (g - u (u.g)) / ||x||, with u = x / ||x|| and g the gradient for u.

        g is 4 C u, with C the cosines of the pairs i != j.
        """
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
