"""Measures of attention weights: Jensen-Shannon divergence between heads, entropy, sharpness."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import check_head_tensor, check_padding_mask, compute_dtype

REDUCTIONS = ("sentence", "row")
CHUNK = 2**20  # elements of (p + q) / 2 that are in memory at once
SHARP = 0.95  # the attention of a query is sharp if its largest weight is above this


class Sharpness(NamedTuple):
    """Sharpness of each head, over all queries that are not padding."""

    entropy: Tensor  # (H,) float64, nats, 0 to the logarithm of the number of keys
    sharp: Tensor  # (H,) float64, 0 to 1: share of queries with a weight above SHARP


def jensen_shannon(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    reduction: str = "sentence",
) -> Tensor:
    """Return the Jensen-Shannon divergence of all pairs of heads (Zheng et al. 2021, section 5).

    Choose it to ask whether heads look at different words. Two heads with a high divergence can
    still produce the same outputs, so measure CKA as well.

    For the distributions p, q of two heads at one query, with H(p) the entropy of p::

        JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

    Args:
        weights: (B, H, T, S), attention weights after the softmax; any floating-point dtype.
        query_padding_mask: (B, T) bool, True = padding, left out.
        key_padding_mask: (B, S) bool, True = padding, left out.
        reduction: ``"sentence"`` (the paper): sum over queries, mean over sentences. ``"row"``:
            mean over the real queries, in [0, ln 2].

    Returns:
        (H, H) float64, symmetric, diagonal 0, in nats; higher = heads attend to more different
        positions.

    Example:
        >>> import torch
        >>> weights = torch.eye(2).view(1, 2, 1, 2)  # two heads that look at two different words
        >>> round(jensen_shannon(weights)[0, 1].item(), 4)  # ln 2, the maximum of a query
        0.6931
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: choose from {REDUCTIONS}")
    total, rows, sentences = divergence_sums(weights, query_padding_mask, key_padding_mask)
    return total / max(sentences if reduction == "sentence" else rows, 1)


def attention_entropy(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> Sharpness:
    """Return each head's mean entropy -sum_s p_s ln p_s, and its share of sharp queries.

    Choose it to tell sharp heads, such as those that align words, from heads that look everywhere.

    Args:
        weights: (B, H, T, S), attention weights after the softmax, before dropout.
        query_padding_mask: (B, T) bool, True = padding, left out.
        key_padding_mask: (B, S) bool, True = padding, left out.

    Example:
        >>> import torch
        >>> weights = torch.full((1, 1, 3, 4), 0.25)  # one head that looks everywhere
        >>> entropy, _ = attention_entropy(weights)
        >>> round(entropy.item(), 4)  # ln 4
        1.3863
    """
    entropy, sharp, rows = entropy_sums(weights, query_padding_mask, key_padding_mask)
    return Sharpness(entropy / max(rows, 1), sharp / max(rows, 1))


@torch.no_grad()
def divergence_sums(
    weights: Tensor, query_padding_mask: Tensor | None, key_padding_mask: Tensor | None
) -> tuple[Tensor, int, int]:
    """Sum the divergences over the real queries of a batch.

    Returns:
        The sums, (H, H) float64 in nats; the number of real queries; the number of sentences that
        have a real query.
    """
    rows, sentence = _real_rows(weights, query_padding_mask, key_padding_mask)
    num_heads, src_len = rows.shape[1:]
    total = weights.new_zeros((num_heads, num_heads), dtype=torch.float64)
    for p in rows.split(max(CHUNK // max(num_heads * src_len, 1), 1)):
        entropy = torch.special.entr(p).sum(dim=-1)  # (rows, H)
        for i in range(num_heads - 1):
            mixed = torch.special.entr((p[:, i + 1 :] + p[:, i : i + 1]) / 2).sum(dim=-1)
            divergence = mixed - (entropy[:, i + 1 :] + entropy[:, i : i + 1]) / 2
            divergence = divergence.clamp(0.0, math.log(2))  # rounding may exceed the bounds
            total[i, i + 1 :] += divergence.sum(dim=0, dtype=torch.float64)
    return total + total.T, len(rows), int(sentence.unique().numel())


@torch.no_grad()
def entropy_sums(
    weights: Tensor, query_padding_mask: Tensor | None, key_padding_mask: Tensor | None
) -> tuple[Tensor, Tensor, int]:
    """Return a batch's sum of entropies (H,), number of sharp queries (H,) and real queries."""
    p, _ = _real_rows(weights, query_padding_mask, key_padding_mask)
    entropy, sharp = torch.special.entr(p).sum(dim=-1), p.amax(dim=-1) > SHARP  # (rows, H)
    return entropy.sum(dim=0, dtype=torch.float64), sharp.sum(dim=0, dtype=torch.float64), len(p)


def _real_rows(
    weights: Tensor, query_padding_mask: Tensor | None, key_padding_mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the weights of real queries (N, H, S), 0 for padded keys, and their sentences (N,)."""
    check_head_tensor("weights", weights, "(B, H, T, S)")
    bsz, _, tgt_len, src_len = weights.shape
    check_padding_mask("query_padding_mask", query_padding_mask, (bsz, tgt_len))
    check_padding_mask("key_padding_mask", key_padding_mask, (bsz, src_len))
    if query_padding_mask is None:
        query_padding_mask = weights.new_zeros((bsz, tgt_len), dtype=torch.bool)
    sentence, query = (~query_padding_mask).nonzero(as_tuple=True)
    rows = weights[sentence, :, query].to(compute_dtype(weights))
    if key_padding_mask is not None:
        rows = rows.masked_fill(key_padding_mask[sentence].unsqueeze(1), 0.0)
    return rows, sentence
