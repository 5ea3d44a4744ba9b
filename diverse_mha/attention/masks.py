"""Masks as additive biases, made once per batch and shared by all layers.

A bias is very negative but finite, so a row with every key masked gets finite weights and
gradients. Other rows get exactly zero on masked keys.
"""

import torch
from torch import Tensor


def lowest_bias(dtype: torch.dtype) -> float:
    """Return half the dtype's lowest number, so that adding a logit cannot overflow."""
    return torch.finfo(dtype).min / 2


def logit_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of logits in a layer that reads x: half precision under autocast."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def padding_bias(key_padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a key padding mask (B, S), True = padding, into a bias (B, 1, 1, S) on the logits."""
    bias = torch.zeros(key_padding_mask.shape, dtype=dtype, device=key_padding_mask.device)
    bias.masked_fill_(key_padding_mask, lowest_bias(dtype))
    return bias[:, None, None, :]


def causal_bias(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a bias (1, 1, length, length) that hides every key after the query."""
    lowest = lowest_bias(dtype)
    return torch.full((1, 1, length, length), lowest, dtype=dtype, device=device).triu(1)
