"""Checks, precision and means of tensors that have a dimension of heads."""

import torch
from torch import Tensor


def check_head_tensor(name: str, tensor: Tensor, letters: str) -> None:
    """Raise ValueError unless a tensor has the dimensions ``letters``, a head and a float dtype."""
    dims = letters.count(",") + 1
    if tensor.dim() != dims:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; expected {dims} dimensions {letters}"
        )
    if not tensor.is_floating_point():
        raise ValueError(f"{name} has dtype {tensor.dtype}; expected a floating-point dtype")
    if tensor.size(1) == 0:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}, so no head; expected H >= 1 in {letters}"
        )


def check_padding_mask(name: str, mask: Tensor | None, shape: tuple[int, ...]) -> None:
    """Raise ValueError if a padding mask (True = padding, or None) has another shape or dtype."""
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} has dtype {mask.dtype}; expected torch.bool, True = padding")
    if tuple(mask.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(mask.shape)}; expected {tuple(shape)}")


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return float64 for a float64 tensor, else float32."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def wide_range(tensor: Tensor) -> Tensor:
    """Return a float16 tensor in float32, where squares neither vanish nor overflow; else as is."""
    return tensor.float() if tensor.dtype == torch.float16 else tensor


def overflow_to_nan(norms: Tensor) -> Tensor:
    """Return norms with NaN for infinity, because a vector divided by infinity would be 0."""
    return norms.masked_fill(norms.isinf(), torch.nan)


def full_precision(tensor: Tensor) -> torch.autocast:
    """Return a context manager that disables autocast, for matrix products."""
    return torch.autocast(tensor.device.type, enabled=False)


def real_position_weights(padding_mask: Tensor | None, like: Tensor, shape: torch.Size) -> Tensor:
    """Return weights that turn a sum over positions into a mean over the real positions.

    Args:
        padding_mask: bool, any shape, True = padding; None means no padding.
        like: a tensor whose device and dtype the weights take.
        shape: shape of the weights, equal to the shape of ``padding_mask`` if a mask is given.

    Returns:
        Tensor of that shape: 1 / (number of real positions) at real positions, 0 at padding.
    """
    if padding_mask is None:
        size = shape.numel()
        return like.new_full(shape, 1.0 / size if size else 0.0)
    real = (~padding_mask).to(like.dtype)
    return real / real.sum().clamp_min(1.0)


def position_weights(
    name: str, x: Tensor, padding_mask: Tensor | None, letters: str = "(B, H, S, D)"
) -> Tensor:
    """Check head vectors and their mask (B, S), and return :func:`real_position_weights` (B, S)."""
    check_head_tensor(name, x, letters)
    shape = torch.Size((x.size(0), x.size(2)))
    check_padding_mask("padding_mask", padding_mask, shape)
    return real_position_weights(padding_mask, x.new_empty((), dtype=compute_dtype(x)), shape)
