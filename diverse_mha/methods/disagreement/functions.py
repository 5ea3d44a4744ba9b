"""The three disagreement terms of Li et al. 2018, further forms of the terms, and scores."""

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import (
    check_head_tensor,
    check_padding_mask,
    compute_dtype,
    full_precision,
    overflow_to_nan,
    position_weights,
    real_position_weights,
)
from diverse_mha.methods.disagreement.cosine import mean_pairwise_cosine, mean_squared_cosine

POSITION_REDUCTIONS = ("query", "sentence")
FORMS = ("centred", "off-diagonal", "squared")  # see :func:`subspace_disagreement`
POSITION_FORMS = ("off-diagonal", "squared-difference")


def subspace_disagreement(
    values: Tensor, padding_mask: Tensor | None = None, *, form: tuple[str, ...] = ()
) -> Tensor:
    """Mean negative cosine between the value vectors of all pairs of heads.

    Choose it to make heads read different things from the sentence. Values can reach the maximum by
    cancelling each other, so measure CKA as well.

    Li et al. 2018, Eq. 1 (Li et al. 2021, Eq. 5), averaged over the real positions::

        D = -(1/H^2) sum_i sum_j cos(V^i, V^j) = -||sum_h V^h / ||V^h|| ||^2 / H^2

    V^i is the value vector of head i. The pairs i = j are in the sum, as in the paper. The cosine
    with a zero vector (norm up to 1e-12) is 0 and has no gradient.

    These forms are not in the papers: ``"centred"`` subtracts a head's mean over the batch's real
    positions from its vectors; ``"off-diagonal"`` takes the mean over the pairs i != j;
    ``"squared"`` takes the mean of the squared cosines over i != j. ``"centred"`` can be combined
    with either of the other two.

    Args:
        values: (B, H, S, D), the projected values; any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, which is never read and gets zero gradient.
        form: some of ``FORMS``; empty for the paper's form.

    Returns:
        Scalar D, float32 (float64 for float64 values), without unit, in [-1, 0]; higher = more
        diverse. D is -1 for equal heads, and -1/H for perpendicular heads. In the form
        ``"off-diagonal"`` D is in [-1, 1/(H-1)], and in ``"squared"`` in [-1, 0]; in both it is 0
        for perpendicular heads. Without a real position D is 0. If squares of the values overflow,
        D is NaN. A loss adds ``-weight * D``.

    Example:
        >>> import torch
        >>> values = torch.eye(4).view(1, 4, 1, 4)  # four perpendicular heads at one position
        >>> subspace_disagreement(values)
        tensor(-0.2500)
        >>> subspace_disagreement(torch.ones(1, 4, 1, 4))  # four equal heads
        tensor(-1.)
    """
    return -_mean_cosine("values", values, padding_mask, form)


def output_disagreement(
    outputs: Tensor, padding_mask: Tensor | None = None, *, form: tuple[str, ...] = ()
) -> Tensor:
    """Mean negative cosine between the outputs of all pairs of heads.

    Choose it to make the results of heads differ. Begin with a weight of 0.1, because at 1.0 some
    post-norm models with four heads do not train. Expect D near its maximum, and outputs that
    cancel each other rather than a low CKA.

    Li et al. 2018, Eq. 3 (Li et al. 2021, Eq. 7), averaged over the real query positions::

        D = -(1/H^2) sum_i sum_j cos(O^i, O^j) = -||sum_h O^h / ||O^h|| ||^2 / H^2

    Otherwise like :func:`subspace_disagreement`.

    Args:
        outputs: (B, H, T, D), head outputs before the output projection.
        padding_mask: (B, T) bool, True = padding, of the query side.
        form: some of ``FORMS``; empty for the paper's form.

    Returns:
        Scalar D, float32 (float64 for float64 outputs), higher = more diverse.

    Example:
        >>> import torch
        >>> outputs = torch.randn(8, 4, 10, 16, requires_grad=True)  # (B, H, T, D)
        >>> loss = 3.0 - 0.1 * output_disagreement(outputs)  # D is maximised
        >>> loss.backward()
    """
    return -_mean_cosine("outputs", outputs, padding_mask, form)


def _mean_cosine(name: str, x: Tensor, padding_mask: Tensor | None, form) -> Tensor:
    check_form(form, FORMS)
    if "centred" in form:
        x = centre(x, padding_mask, name=name)
    if "squared" in form:
        return mean_squared_cosine(x, padding_mask, name=name)
    return mean_pairwise_cosine(x, padding_mask, off_diagonal="off-diagonal" in form, name=name)


def centre(x: Tensor, padding_mask: Tensor | None = None, *, name: str = "x") -> Tensor:
    """Subtract from each head's vectors their mean over the real positions of the batch.

    Use it before a cosine, if values could otherwise become constant to satisfy a term.

    Residuals up to 4 ulp of the head's longest vector are set to 0, so a head of equal vectors gets
    zeros, not rounding errors.

    Args:
        x: (B, H, S, D), any floating-point dtype and strides.
        padding_mask: (B, S) bool, True = padding, where ``x`` may hold anything, even NaN.
        name: name of ``x`` in messages.

    Returns:
        (B, H, S, D), float32 (float64 for float64). Values at padding are finite, but have no
        meaning and no gradient.
    """
    weights = position_weights(name, x, padding_mask)
    x = x.to(compute_dtype(x))
    if padding_mask is not None:
        x = x.masked_fill(padding_mask[:, None, :, None], 0.0)
    if 0 in x.shape:
        return x
    centred = x
    with full_precision(x):
        for _ in range(2):  # twice, because the first mean is rounded
            mean = torch.einsum("bhsd,bs->hd", centred, weights)
            centred = centred - mean[None, :, None, :]
    with torch.no_grad():
        longest = torch.linalg.vector_norm(x, dim=-1).amax(dim=(0, 2), keepdim=True)  # (1, H, 1)
        rounding = 4 * torch.finfo(x.dtype).eps * overflow_to_nan(longest)
        nothing = torch.linalg.vector_norm(centred, dim=-1) <= rounding  # (B, H, S)
    return centred.masked_fill(nothing.unsqueeze(-1), 0.0)


def check_form(form: tuple[str, ...], legal: tuple[str, ...]) -> None:
    """Raise ValueError for a form that a term does not have, or two that exclude each other."""
    for name in form:
        if name not in legal:
            raise ValueError(f"form has {name!r}; expected some of {legal}")
    if "squared" in form and "off-diagonal" in form:
        raise ValueError("form has 'squared' and 'off-diagonal'; 'squared' is off-diagonal itself")


def position_disagreement(
    weights: Tensor,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    reduction: str = "query",
    form: tuple[str, ...] = (),
) -> Tensor:
    """Negative overlap of the attention weights of all pairs of heads.

    Choose it to make heads look at different words. It needs the attention weights, so attention
    cannot use the fused kernel.

    Li et al. 2018, Eq. 2 (Li et al. 2021, Eq. 6), with A^h the weights of head h, summed over the
    (query, key) cells::

        D = -(1/H^2) sum_i sum_j sum_cells A^i * A^j = -(1/H^2) sum_cells (sum_h A^h)^2

    The form ``"squared-difference"`` is in footnote 2 of Li et al. 2018 (footnote 3 of 2021)::

        D = (1/H^2) sum_i sum_j sum_cells (A^i - A^j)^2
          = (2/H) sum_cells sum_h (A^h)^2 - (2/H^2) sum_cells (sum_h A^h)^2

    Args:
        weights: (B, H, T, S), attention weights after the softmax; any floating-point dtype.
        query_padding_mask: (B, T) bool, True = padding, left out.
        key_padding_mask: (B, S) bool, True = padding, left out.
        reduction: ``"query"`` (the authors' training): sum over keys, mean over the real queries of
            the batch. ``"sentence"`` (Eq. 2 as printed, and the paper's Table 4): sum over queries
            and keys, mean over the sentences that have a real query.
        form: some of ``POSITION_FORMS``; empty for Eq. 2. ``"off-diagonal"``, not in the papers,
            takes the mean over the pairs i != j, with 1/(H(H-1)) instead of 1/H^2.

    Returns:
        Scalar D, float32 (float64 for float64 weights), without unit; higher = more diverse. With
        ``"query"``, D is in [-1, 0], or in [0, 2] for squared differences. With ``"sentence"``, D
        is up to T times as large. Without a real query, D is 0.

    Example:
        >>> import torch
        >>> weights = torch.eye(2).view(1, 2, 1, 2)  # two heads that look at two different words
        >>> position_disagreement(weights)
        tensor(-0.5000)
    """
    check_form(form, POSITION_FORMS)
    if reduction not in POSITION_REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; expected one of {POSITION_REDUCTIONS}")
    check_head_tensor("weights", weights, "(B, H, T, S)")
    bsz, num_heads, tgt_len, src_len = weights.shape
    check_padding_mask("query_padding_mask", query_padding_mask, (bsz, tgt_len))
    check_padding_mask("key_padding_mask", key_padding_mask, (bsz, src_len))

    total = weights.sum(dim=1, dtype=compute_dtype(weights))  # (B, T, S)
    # Masked before squaring, as 0 * NaN would stay NaN.
    if key_padding_mask is not None:
        total = total.masked_fill(key_padding_mask.unsqueeze(1), 0.0)
    if query_padding_mask is not None:
        total = total.masked_fill(query_padding_mask.unsqueeze(2), 0.0)
    overlap = total.square().sum(dim=2)  # (B, T): of all pairs, i = j too
    value, pairs = -overlap, num_heads**2
    if form:
        heads = weights.to(total.dtype)
        if query_padding_mask is not None:
            heads = heads.masked_fill(query_padding_mask[:, None, :, None], 0.0)
        if key_padding_mask is not None:
            heads = heads.masked_fill(key_padding_mask[:, None, None, :], 0.0)
        squares = heads.square().sum(dim=(1, 3))  # (B, T): of the pairs i = j
        if "off-diagonal" in form:
            value, pairs = squares - overlap, max(1, num_heads * (num_heads - 1))
        if "squared-difference" in form:
            value = 2.0 * (num_heads * squares - overlap)
    if reduction == "query":
        mean = real_position_weights(query_padding_mask, value, value.shape)
    else:
        empty = None if query_padding_mask is None else query_padding_mask.all(dim=1)  # (B,)
        value = value.sum(dim=1)  # (B,)
        mean = real_position_weights(empty, value, value.shape)
    return (value * mean).sum() / pairs


def disagreement_scores(
    values: Tensor | None = None,
    weights: Tensor | None = None,
    outputs: Tensor | None = None,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> dict[str, Tensor]:
    """Scores exp(D) as Li et al. 2018 report them in Tables 4 and 5.

    Choose it to compare your heads with the papers' tables, not as a loss.

    For subspace and output, D is the mean over positions: 8 perpendicular heads have the score
    exp(-1/8) = 0.882. For position, D is the mean over sentences of Eq. 2, summed over the whole
    matrix. Over several batches, average D and take exp once at the end.

    Args:
        values: (B, H, S, D), or None for no subspace score.
        weights: (B, H, T, S), or None for no position score.
        outputs: (B, H, T, D), or None for no output score.
        query_padding_mask: (B, T) bool, True = padding; for weights and outputs.
        key_padding_mask: (B, S) bool, True = padding; for values and weights.

    Returns:
        Scalars under ``"subspace"``, ``"position"`` and ``"output"``, each in [0, 1]; higher = more
        diverse; no gradient.

    Example:
        >>> import torch
        >>> heads = torch.eye(8).view(1, 8, 1, 8)  # eight perpendicular heads
        >>> round(disagreement_scores(outputs=heads)["output"].item(), 3)
        0.882
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
