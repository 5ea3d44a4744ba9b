"""The three disagreement terms of Li et al. 2018, and the scores reported from them."""

import torch
from torch import Tensor

from .checks import check_heads, check_padding_mask, compute_dtype
from .cosine import mean_pairwise_cosine, real_position_weights

POSITION_REDUCTIONS = ("query", "sentence")


def subspace_disagreement(values: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Mean negative cosine between the value vectors of all pairs of heads.

    Li et al. 2018, Eq. 1 (Li et al. 2021, Eq. 5), averaged over the real positions::

        D = -(1/H^2) sum_i sum_j cos(V^i, V^j) = -||sum_h V^h / ||V^h|| ||^2 / H^2

    The pairs i = j are in the sum, as in the paper. The second form makes the cost linear in H.
    The cosine with a zero vector (norm up to 1e-12) is taken as 0, its gradient as zero.

    Args:
        values: (B, H, S, D), the projected values of each head; any floating-point dtype and
            any strides, so that a permuted view needs no copy.
        padding_mask: (B, S) bool, True = padding. What stands at padding is never read into
            the result and gets zero gradient.

    Returns:
        Scalar D, float32 (float64 for float64 values), without unit, in [-1, 0]; higher = more
        diverse. -1: all heads alike; -1/H: perpendicular; 0: the unit vectors sum to zero.
        0 if there is no real position. A loss adds ``-weight * D``.

    Raises:
        ValueError: if a shape or dtype is not as above.
    """
    return -mean_pairwise_cosine(values, padding_mask, name="values")


def output_disagreement(outputs: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Mean negative cosine between the outputs of all pairs of heads.

    Li et al. 2018, Eq. 3 (Li et al. 2021, Eq. 7), averaged over the real query positions::

        D = -(1/H^2) sum_i sum_j cos(O^i, O^j) = -||sum_h O^h / ||O^h|| ||^2 / H^2

    In all else as :func:`subspace_disagreement`.

    Args:
        outputs: (B, H, T, D), the output of each head before the output projection; any
            floating-point dtype and any strides.
        padding_mask: (B, T) bool, True = padding, of the query side.

    Returns:
        Scalar D, float32 (float64 for float64 outputs), in [-1, 0]; higher = more diverse.

    Raises:
        ValueError: if a shape or dtype is not as above.
    """
    return -mean_pairwise_cosine(outputs, padding_mask, name="outputs")


def position_disagreement(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    reduction: str = "query",
) -> Tensor:
    """Negative overlap of the attention weights of all pairs of heads.

    Li et al. 2018, Eq. 2 (Li et al. 2021, Eq. 6), with the cells of the product summed::

        D = -(1/H^2) sum_i sum_j sum_cells A^i * A^j = -(1/H^2) sum_cells (sum_h A^h)^2

    The paper sums over the cells of a sentence's whole matrix; its training code averages over
    the queries instead, so that long sentences do not dominate. Both are here, named apart.

    Args:
        weights: (B, H, T, S), attention weights after the softmax; any floating-point dtype.
        query_padding_mask: (B, T) bool, True = padding: queries to leave out.
        key_padding_mask: (B, S) bool, True = padding: keys to leave out (their weight is 0
            in a masked softmax anyway).
        reduction: ``"query"`` (training): sum over keys, mean over the real queries of the
            batch. ``"sentence"`` (the scores of the paper's Table 4): sum over queries and
            keys, mean over the sentences that have a real query.

    Returns:
        Scalar D, float32 (float64 for float64 weights), without unit; higher = more diverse.
        In [-1, 0] for ``"query"``, in [-T, 0] for ``"sentence"``; 0 without any real query.

    Raises:
        ValueError: if a shape or dtype is not as above, or the reduction is unknown.
    """
    if reduction not in POSITION_REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; expected one of {POSITION_REDUCTIONS}")
    check_heads("weights", weights, "(B, H, T, S)")
    bsz, num_heads, tgt_len, src_len = weights.shape
    check_padding_mask("query_padding_mask", query_padding_mask, (bsz, tgt_len))
    check_padding_mask("key_padding_mask", key_padding_mask, (bsz, src_len))

    total = weights.sum(dim=1, dtype=compute_dtype(weights))  # (B, T, S)
    # Masked before squaring: 0 * NaN, at a query that saw no key, would stay NaN.
    if key_padding_mask is not None:
        total = total.masked_fill(key_padding_mask.unsqueeze(1), 0.0)
    if query_padding_mask is not None:
        total = total.masked_fill(query_padding_mask.unsqueeze(2), 0.0)
    overlap = total.square().sum(dim=2)  # (B, T)
    if reduction == "query":
        mean = real_position_weights(query_padding_mask, overlap, overlap.shape)
    else:
        empty = None if query_padding_mask is None else query_padding_mask.all(dim=1)  # (B,)
        overlap = overlap.sum(dim=1)  # (B,)
        mean = real_position_weights(empty, overlap, overlap.shape)
    return (overlap * mean).sum() / -(num_heads**2)


def disagreement_scores(
    values: Tensor | None = None,
    weights: Tensor | None = None,
    outputs: Tensor | None = None,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> dict[str, Tensor]:
    """The scores exp(D) that Li et al. 2018 report in Tables 4 and 5.

    Subspace and output: exp of the mean over positions, 0.882 = exp(-1/8) for 8 perpendicular
    heads. Position: exp of the mean over sentences of Eq. 2 summed over the whole matrix; only
    this reading gives values as low as the 0.007 of the paper's baseline. For a data set of
    several batches average D, not the scores, and take exp once at the end.

    Args:
        values: (B, H, S, D), or None to leave the subspace score out.
        weights: (B, H, T, S), or None to leave the position score out.
        outputs: (B, H, T, D), or None to leave the output score out.
        query_padding_mask: (B, T) bool, True = padding; for weights and outputs.
        key_padding_mask: (B, S) bool, True = padding; for values and weights.

    Returns:
        Scalars under ``"subspace"``, ``"position"`` and ``"output"``, those that were asked
        for; each in (0, 1], higher = more diverse; no gradient.

    Raises:
        ValueError: if a shape or dtype is not as above.
    """
    scores = {}
    with torch.no_grad():
        if values is not None:
            scores["subspace"] = subspace_disagreement(values, key_padding_mask).exp()
        if weights is not None:
            scores["position"] = position_disagreement(
                weights, query_padding_mask, key_padding_mask, reduction="sentence"
            ).exp()
        if outputs is not None:
            scores["output"] = output_disagreement(outputs, query_padding_mask).exp()
    return scores
