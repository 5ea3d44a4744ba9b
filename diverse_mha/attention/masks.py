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


def logit_dtype(x: Tensor) -> torch.dtype:
    """Dtype of the logits of a layer that reads x: under autocast, half precision.

    A bias in x's own would become minus infinity where autocast casts it to float16.
    """
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


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
