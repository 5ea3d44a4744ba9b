"""Head vectors less their mean over a batch's positions."""

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import compute_dtype, full_precision, position_weights


def centre(x: Tensor, padding_mask: Tensor | None = None, *, name: str = "x") -> Tensor:
    """Subtract from each head's vectors their mean over the real positions of the batch.

    What is not above four units in the last place of the head's longest vector becomes 0, so a head
    of equal vectors gets zeros rather than rounding.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        name: of ``x`` in messages.

    Returns:
        (B, H, S, D), float32 (float64 for float64). At padding it is finite, without meaning or
        gradient.
    """
    weights = position_weights(name, x, padding_mask)
    x = x.to(compute_dtype(x))
    if padding_mask is not None:
        x = x.masked_fill(padding_mask[:, None, :, None], 0.0)
    if 0 in x.shape:
        return x
    centred = x
    with full_precision(x):
        for _ in range(2):  # the first mean is rounded
            mean = torch.einsum("bhsd,bs->hd", centred, weights)
            centred = centred - mean[None, :, None, :]
    with torch.no_grad():
        longest = torch.linalg.vector_norm(x, dim=-1).amax(dim=(0, 2), keepdim=True)  # (1, H, 1)
        rounding = 4 * torch.finfo(x.dtype).eps * longest
        nothing = torch.linalg.vector_norm(centred, dim=-1) <= rounding  # (B, H, S)
    return centred.masked_fill(nothing.unsqueeze(-1), 0.0)
