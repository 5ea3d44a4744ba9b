"""Jensen-Shannon divergence between the attention distributions of heads."""

import math

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import check_heads, check_padding_mask

REDUCTIONS = ("sentence", "row")
CHUNK = 2**20  # elements of mixtures at once


def jensen_shannon(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    reduction: str = "sentence",
) -> Tensor:
    """Jensen-Shannon divergence of all pairs of heads (Zheng et al. 2021, section 5).

    For the distributions p, q of two heads at one query, with H the entropy::

        JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

    Args:
        weights: (B, H, T, S), attention weights after the softmax; any floating-point dtype.
        query_padding_mask: (B, T) bool, True = padding, left out.
        key_padding_mask: (B, S) bool, True = padding, left out.
        reduction: ``"sentence"`` (the paper): sum over queries, mean over sentences. ``"row"``:
            mean over the real queries, in [0, ln 2].

    Returns:
        (H, H) float64, symmetric, diagonal 0, in nats; higher = heads look at different places.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: choose from {REDUCTIONS}")
    total, rows, sentences = divergence_sums(weights, query_padding_mask, key_padding_mask)
    return total / max(sentences if reduction == "sentence" else rows, 1)


@torch.no_grad()
def divergence_sums(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> tuple[Tensor, int, int]:
    """Sum the divergences over the real queries of a batch.

    Returns:
        (H, H) float64 in nats, the number of real queries, and of sentences that have one.
    """
    check_heads("weights", weights, "(B, H, T, S)")
    bsz, num_heads, tgt_len, src_len = weights.shape
    check_padding_mask("query_padding_mask", query_padding_mask, (bsz, tgt_len))
    check_padding_mask("key_padding_mask", key_padding_mask, (bsz, src_len))
    if query_padding_mask is None:
        query_padding_mask = weights.new_zeros((bsz, tgt_len), dtype=torch.bool)
    sentence, query = (~query_padding_mask).nonzero(as_tuple=True)
    total = weights.new_zeros((num_heads, num_heads), dtype=torch.float64)
    rows = max(CHUNK // max(num_heads * src_len, 1), 1)
    for start in range(0, sentence.numel(), rows):
        b, t = sentence[start : start + rows], query[start : start + rows]
        p = weights[b, :, t]  # (rows, H, S)
        if p.dtype != torch.float64:
            p = p.float()
        if key_padding_mask is not None:
            p = p.masked_fill(key_padding_mask[b].unsqueeze(1), 0.0)
        entropy = torch.special.entr(p).sum(dim=-1)  # (rows, H)
        for i in range(num_heads - 1):
            mixed = torch.special.entr((p[:, i + 1 :] + p[:, i : i + 1]) / 2).sum(dim=-1)
            divergence = mixed - (entropy[:, i + 1 :] + entropy[:, i : i + 1]) / 2
            divergence = divergence.clamp(0.0, math.log(2))  # rounding
            total[i, i + 1 :] += divergence.sum(dim=0, dtype=torch.float64)
    return total + total.T, sentence.numel(), int(sentence.unique().numel())
