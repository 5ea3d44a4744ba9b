"""What the loss may ask of the attention heads: pure functions on tensors.

Nothing in this folder imports fairseq.
"""

from .centring import centre
from .cosine import mean_pairwise_cosine
from .disagreement import output_disagreement, position_disagreement, subspace_disagreement
from .hsic import hsic, sample_positions
from .orthogonality import srip
from .scores import disagreement_scores
from .squared_cosine import mean_squared_cosine

__all__ = [
    "centre",
    "disagreement_scores",
    "hsic",
    "mean_pairwise_cosine",
    "mean_squared_cosine",
    "output_disagreement",
    "position_disagreement",
    "sample_positions",
    "srip",
    "subspace_disagreement",
]
