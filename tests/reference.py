"""Slow reference implementations of the papers' equations.

They loop over heads and positions. Use them in float64 with tiny shapes.
"""

import torch
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of two vectors, or 0 if one of them is the zero vector."""
    if not a.detach().any() or not b.detach().any():
        return a.new_zeros(())
    return torch.dot(a, b) / (torch.sqrt(torch.dot(a, a)) * torch.sqrt(torch.dot(b, b)))


def cosine_disagreement(x: Tensor, padding_mask: Tensor | None = None, form=()) -> Tensor:
    """Li et al. 2018, Eq. 1 and Eq. 3: the double sum, averaged over real positions.

    ``form`` may contain "centred" (subtract each head's mean vector), "off-diagonal" (omit the
    pairs i = j) and "squared" (omit the pairs i = j and square the cosines).
    """
    bsz, num_heads, length, _ = x.shape
    terms = []
    if "centred" in form:
        x = minus_mean(x, padding_mask)
    off_diagonal = "off-diagonal" in form or "squared" in form
    for b in range(bsz):
        for t in range(length):
            if padding_mask is not None and padding_mask[b, t]:
                continue
            term = 0.0 * x[b, :, t].sum()
            for i in range(num_heads):
                for j in range(num_heads):
                    if off_diagonal and i == j:
                        continue
                    cos = cosine(x[b, i, t], x[b, j, t])
                    term = term - (cos**2 if "squared" in form else cos)
            pairs = num_heads * (num_heads - 1) if off_diagonal else num_heads**2
            terms.append(term / max(1, pairs))
    return torch.stack(terms).mean() if terms else 0.0 * x.sum()


def minus_mean(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Return each head's vectors minus their mean over the real positions of all sentences."""
    result = x.clone()
    for h in range(x.size(1)):
        rows = [
            x[b, h, t]
            for b in range(x.size(0))
            for t in range(x.size(2))
            if padding_mask is None or not padding_mask[b, t]
        ]
        result[:, h] = x[:, h] - torch.stack(rows).mean(dim=0)
    return result


def position_disagreement(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    reduction: str = "query",
    form=(),
) -> Tensor:
    """Li et al. 2018, Eq. 2: products of two heads' weights, summed over heads and real keys.

    Return the mean over queries (``reduction="query"``), or the sum over the queries of a
    sentence, averaged over sentences. ``form`` may contain "off-diagonal" (omit the pairs i = j)
    and "squared-difference" (footnote 2).
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
                    if "off-diagonal" in form and i == j:
                        continue
                    if "squared-difference" in form:
                        difference = (weights[b, i, t] - weights[b, j, t]) ** 2  # (S,)
                        term = term + difference[real[b]].sum()
                        continue
                    product = (weights[b, i, t] * weights[b, j, t]).abs()  # (S,)
                    term = term - product[real[b]].sum()
            pairs = num_heads * (num_heads - 1) if "off-diagonal" in form else num_heads**2
            queries.append(term / max(1, pairs))
        if queries:
            per_query += queries
            per_sentence.append(torch.stack(queries).sum())
    terms = per_query if reduction == "query" else per_sentence
    return torch.stack(terms).mean() if terms else 0.0 * weights.sum()
