"""Slow, literal versions of the papers' equations: the oracles of the fast ones.

Loops over heads and positions, no identities, no tricks; meant for float64 and tiny shapes.
"""

import torch
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """cos(a, b) of two vectors; 0 where one of them is the zero vector."""
    if not a.detach().any() or not b.detach().any():
        return a.new_zeros(())
    return torch.dot(a, b) / (torch.sqrt(torch.dot(a, a)) * torch.sqrt(torch.dot(b, b)))


def cosine_disagreement(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Li et al. 2018, Eq. 1 and Eq. 3: the double sum, averaged over real positions."""
    bsz, num_heads, length, _ = x.shape
    terms = []
    for b in range(bsz):
        for t in range(length):
            if padding_mask is not None and padding_mask[b, t]:
                continue
            term = x.new_zeros(())
            for i in range(num_heads):
                for j in range(num_heads):
                    term = term - cosine(x[b, i, t], x[b, j, t])
            terms.append(term / num_heads**2)
    return torch.stack(terms).mean() if terms else 0.0 * x.sum()


def position_disagreement(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    reduction: str = "query",
) -> Tensor:
    """Li et al. 2018, Eq. 2: the double sum over heads of the products' real cells.

    ``reduction`` says what is averaged: queries, or sentences.
    """
    bsz, num_heads, tgt_len, src_len = weights.shape
    real = weights.new_ones(bsz, src_len, dtype=torch.bool)
    if key_padding_mask is not None:
        real = ~key_padding_mask
    per_query, per_sentence = [], []
    for b in range(bsz):
        queries = []
        for t in range(tgt_len):
            if query_padding_mask is not None and query_padding_mask[b, t]:
                continue
            term = weights.new_zeros(())
            for i in range(num_heads):
                for j in range(num_heads):
                    product = (weights[b, i, t] * weights[b, j, t]).abs()  # (S,)
                    term = term - product[real[b]].sum()
            queries.append(term / num_heads**2)
        if queries:
            per_query += queries
            per_sentence.append(torch.stack(queries).sum())
    terms = per_query if reduction == "query" else per_sentence
    return torch.stack(terms).mean() if terms else 0.0 * weights.sum()
