"""Masks as additive biases, made once per batch and shared by all layers.

The bias is a very negative finite number rather than minus infinity: a row with
every key masked (a padding query) then gets finite weights and gradients instead
of NaN, and every other row gets exactly zero on its masked keys.
"""

import torch
from torch import Tensor


def lowest_bias(dtype: torch.dtype) -> float:
    """Half the dtype's lowest number, so that adding a logit cannot overflow."""
    return torch.finfo(dtype).min / 2


def padding_bias(key_padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a key padding mask into a bias on the logits.

    Args:
        key_padding_mask: (B, S) bool, True = padding.
        dtype: floating-point dtype of the logits.

    Returns:
        (B, 1, 1, S), 0 on real keys, ``lowest_bias`` on padding.
    """
    bias = torch.zeros(key_padding_mask.shape, dtype=dtype, device=key_padding_mask.device)
    bias.masked_fill_(key_padding_mask, lowest_bias(dtype))
    return bias[:, None, None, :]


def causal_bias(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Bias that keeps query t from every key after t: (1, 1, length, length)."""
    lowest = lowest_bias(dtype)
    return torch.full((1, 1, length, length), lowest, dtype=dtype, device=device).triu(1)


def merge_bias(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, dtype: torch.dtype
) -> Tensor | None:
    """Merge fairseq's two masks into one bias.

    Args:
        attn_mask: (T, S); bool with True = may not attend, or a float bias with
            minus infinity where the query may not attend.
        key_padding_mask: (B, S), non-zero = padding.
        dtype: floating-point dtype of the logits.

    Returns:
        A bias that broadcasts to (B, H, T, S), or None if there is no mask.
    """
    padding = None if key_padding_mask is None else key_padding_mask.to(torch.bool)
    if attn_mask is None:
        return None if padding is None else padding_bias(padding, dtype)
    lowest = lowest_bias(dtype)
    if attn_mask.dtype == torch.bool:
        bias = torch.zeros(attn_mask.shape, dtype=dtype, device=attn_mask.device)
        bias.masked_fill_(attn_mask, lowest)
    else:
        bias = attn_mask.to(dtype).clamp(min=lowest)
    bias = bias[None, None]  # (1, 1, T, S)
    return bias if padding is None else bias.masked_fill(padding[:, None, None, :], lowest)
