"""The scores of disagreement that Li et al. 2018 report."""

import torch
from torch import Tensor

from diverse_mha.methods.disagreement.functions import (
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)


def disagreement_scores(
    values: Tensor | None = None,
    weights: Tensor | None = None,
    outputs: Tensor | None = None,
    query_padding_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> dict[str, Tensor]:
    """Scores exp(D) as Li et al. 2018 report them in Tables 4 and 5.

    Subspace and output: exp of the mean over positions, 0.882 = exp(-1/8) for 8 perpendicular
    heads. Position: exp of the mean over sentences of Eq. 2 summed over the whole matrix. Over
    several batches, average D and take exp once at the end.

    Args:
        values: (B, H, S, D), or None for no subspace score.
        weights: (B, H, T, S), or None for no position score.
        outputs: (B, H, T, D), or None for no output score.
        query_padding_mask: (B, T) bool, True = padding; for weights and outputs.
        key_padding_mask: (B, S) bool, True = padding; for values and weights.

    Returns:
        Scalars under ``"subspace"``, ``"position"`` and ``"output"``, each in [0, 1]; higher = more
        diverse; no gradient.
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
