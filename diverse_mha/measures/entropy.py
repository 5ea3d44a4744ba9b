"""Sharpness of attention: entropy of the weights, and how often one weight is nearly all."""

from typing import NamedTuple

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import check_heads, check_padding_mask

SHARP = 0.95  # a row with a larger weight counts as sharp


class Sharpness(NamedTuple):
    """Sharpness of each head, over the real queries."""

    entropy: Tensor  # (H,) float64, nats, 0 to the logarithm of the number of keys
    sharp: Tensor  # (H,) float64, 0 to 1: share of queries with a weight above SHARP


def attention_entropy(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> Sharpness:
    """Mean entropy -sum_s p_s ln p_s of each head's attention, and its share of sharp rows.

    Args:
        weights: (B, H, T, S), attention weights after the softmax, before dropout.
        query_padding_mask: (B, T) bool, True = padding, left out.
        key_padding_mask: (B, S) bool, True = padding, left out.
    """
    entropy, sharp, rows = entropy_sums(weights, query_padding_mask, key_padding_mask)
    return Sharpness(entropy / max(rows, 1), sharp / max(rows, 1))


@torch.no_grad()
def entropy_sums(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, int]:
    """Sum entropies (H,) and sharp rows (H,) over a batch's real queries, and count these."""
    check_heads("weights", weights, "(B, H, T, S)")
    bsz, _, tgt_len, src_len = weights.shape
    check_padding_mask("query_padding_mask", query_padding_mask, (bsz, tgt_len))
    check_padding_mask("key_padding_mask", key_padding_mask, (bsz, src_len))
    p = weights if weights.dtype == torch.float64 else weights.float()
    if key_padding_mask is not None:
        p = p.masked_fill(key_padding_mask[:, None, None], 0.0)
    entropy, sharp = torch.special.entr(p).sum(dim=-1), p.amax(dim=-1) > SHARP  # (B, H, T)
    if query_padding_mask is None:
        query_padding_mask = weights.new_zeros((bsz, tgt_len), dtype=torch.bool)
    real = ~query_padding_mask
    rows = real.unsqueeze(1)
    return (
        entropy.masked_fill(~rows, 0.0).sum(dim=(0, 2), dtype=torch.float64),
        (sharp & rows).sum(dim=(0, 2), dtype=torch.float64),
        int(real.sum()),
    )
