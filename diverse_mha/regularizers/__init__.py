"""What the loss may ask of the attention heads: pure functions on tensors.

Nothing in this folder imports fairseq.
"""

from .disagreement import (
    disagreement_scores,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)

__all__ = [
    "disagreement_scores",
    "output_disagreement",
    "position_disagreement",
    "subspace_disagreement",
]
