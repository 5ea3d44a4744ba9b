"""Disagreement of subspaces, positions and outputs of the heads (Li et al. 2018, Eqs. 1 to 3)."""

from diverse_mha.methods.disagreement.cosine import mean_pairwise_cosine, mean_squared_cosine
from diverse_mha.methods.disagreement.functions import (
    centre,
    disagreement_scores,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from diverse_mha.methods.disagreement.term import Disagreement

__all__ = [
    "Disagreement",
    "centre",
    "disagreement_scores",
    "mean_pairwise_cosine",
    "mean_squared_cosine",
    "output_disagreement",
    "position_disagreement",
    "subspace_disagreement",
]
