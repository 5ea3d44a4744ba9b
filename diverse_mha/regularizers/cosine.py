"""Mean pairwise cosine of head vectors, with a backward pass written by hand."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .checks import check_heads, check_padding_mask, compute_dtype

ZERO_NORM = 1e-12
"""A head vector whose norm is not above this counts as the zero vector."""

CPU_CHUNK = 2**18
"""Elements of the input handled at once on the CPU."""


def real_position_weights(padding_mask: Tensor | None, like: Tensor, shape) -> Tensor:
    """Weights that turn a sum over positions into a mean over the real ones.

    Args:
        padding_mask: bool, any shape, True = padding; None means that nothing is padded.
        like: a tensor whose device and dtype the weights take.
        shape: shape of the weights; that of ``padding_mask`` if there is one.

    Returns:
        Tensor of that shape: 1 / (number of real positions) at real positions, 0 at padding.
        All zero where every position is padding.
    """
    if padding_mask is None:
        size = shape.numel()
        return like.new_full(shape, 1.0 / size if size else 0.0)
    real = (~padding_mask).to(like.dtype)
    return real / real.sum().clamp_min(1.0)


def mean_pairwise_cosine(
    x: Tensor, padding_mask: Tensor | None = None, *, name: str = "x"
) -> Tensor:
    """Mean over real positions of (1/H^2) sum_ij cos(x_i, x_j), the pairs i = j included.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        name: what messages call ``x``.

    Returns:
        Scalar, float32 (float64 for float64), in [0, 1]; lower = more diverse. 1/H for
        perpendicular heads; 0 if there is no real position.

    Raises:
        ValueError: if a shape or dtype is not as above.
    """
    check_heads(name, x, "(B, H, S, D)")
    shape = torch.Size((x.size(0), x.size(2)))
    check_padding_mask("padding_mask", padding_mask, shape)
    weights = real_position_weights(padding_mask, x.new_empty((), dtype=compute_dtype(x)), shape)
    return MeanPairwiseCosine.apply(x, weights, padding_mask)


class MeanPairwiseCosine(torch.autograd.Function):
    """Weighted mean over positions of (1/H^2) sum_ij cos(x_i, x_j).

    The double sum equals ||sum_h x_h / ||x_h|| ||^2 / H^2, so the cost is linear in H. Plain
    autograd reads and writes the (B, H, S, D) tensor some ten times and keeps two copies of it;
    this form keeps only the input, the (B, H, S) inverse norms and one (B, S, D) sum, reads the
    input twice forward and once backward, and works on a few heads at a time on the CPU so that
    the intermediate values stay in cache.
    """

    @staticmethod
    def forward(ctx, x: Tensor, position_weights: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Computes the weighted mean.

        Args:
            ctx: autograd's context.
            x: (B, H, S, D), any floating-point dtype, any strides.
            position_weights: (B, S), float32 or float64: the dtype to compute in.
            padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.

        Returns:
            Scalar of the dtype of ``position_weights``, in [0, sum of the weights].
        """
        dtype = position_weights.dtype
        bsz, num_heads, length, head_dim = x.shape
        norms = torch.linalg.vector_norm(x, dim=-1, dtype=dtype)  # (B, H, S)
        inverse = norms.reciprocal().masked_fill_(norms <= ZERO_NORM, 0.0)
        total = x.new_zeros((bsz, length, head_dim), dtype=dtype)
        for heads, scale in _by_heads(x, inverse):
            if heads.size(1) == 1:
                total.addcmul_(heads[:, 0].to(dtype), scale[:, 0])
            else:
                total += (heads.to(dtype) * scale).sum(dim=1)  # (B, S, D)
        # At padding the weight 0 is enough unless a value there is NaN or inf; to look is cheaper
        # than to fill on the CPU, and would wait for the device elsewhere.
        if x.device.type == "cpu" and bool(norms.sum().isfinite()):
            padding_mask = None
        if padding_mask is not None:
            total.masked_fill_(padding_mask.unsqueeze(-1), 0.0)
        ctx.save_for_backward(x, inverse, total, position_weights, padding_mask)
        squares = torch.linalg.vecdot(total, total)  # (B, S)
        return (squares * position_weights).sum() / num_heads**2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        """Gradient for ``x``: (g - u (u.g)) / ||x||, with u the unit vector, g that for u."""
        x, inverse, total, position_weights, padding_mask = ctx.saved_tensors
        dtype = position_weights.dtype
        scale = position_weights * (grad * (2.0 / x.size(1) ** 2))  # (B, S)
        grad_unit = (total * scale.unsqueeze(-1)).unsqueeze(1)  # (B, 1, S, D)
        grad_x = torch.empty_like(x)
        step = _heads_at_once(x)
        for (heads, inv), out in zip(_by_heads(x, inverse), grad_x.split(step, dim=1), strict=True):
            heads = heads.to(dtype)
            # Multiplied one by one because inv ** 3 alone may overflow.
            along = torch.linalg.vecdot(heads, grad_unit).unsqueeze(-1)  # (B, h, S, 1)
            along = along.mul_(inv).mul_(inv).mul_(inv)
            result = torch.mul(grad_unit, inv, out=out if x.dtype == dtype else None)
            result.addcmul_(heads, along, value=-1.0)
            if padding_mask is not None:
                result.masked_fill_(padding_mask[:, None, :, None], 0.0)
            if result is not out:
                out.copy_(result)
        return grad_x, None, None


def _heads_at_once(x: Tensor) -> int:
    """Heads handled at once: as many as stay in cache on the CPU, all elsewhere."""
    if x.device.type != "cpu":
        return x.size(1)
    per_head = x.numel() // x.size(1)
    return min(x.size(1), max(1, CPU_CHUNK // max(1, per_head)))


def _by_heads(x: Tensor, inverse: Tensor):
    """Pairs of (B, h, S, D) slices of ``x`` and (B, h, S, 1) slices of ``inverse``."""
    step = _heads_at_once(x)
    return zip(x.split(step, dim=1), inverse.unsqueeze(-1).split(step, dim=1), strict=True)
