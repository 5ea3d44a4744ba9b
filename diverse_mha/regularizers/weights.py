"""What turns a sum over positions into a mean over the real ones."""

from torch import Tensor


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
