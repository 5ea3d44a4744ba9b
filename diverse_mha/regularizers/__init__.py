"""What the loss may ask of the attention heads: pure functions on tensors.

Nothing in this folder imports fairseq.
"""

from .cosine import mean_pairwise_cosine
from .disagreement import (
    disagreement_scores,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from .hsic import hsic, sample_positions
from .orthogonality import srip

__all__ = [
    "disagreement_scores",
    "hsic",
    "mean_pairwise_cosine",
    "output_disagreement",
    "position_disagreement",
    "sample_positions",
    "srip",
    "subspace_disagreement",
]
