"""How much attention heads differ: measures on plain tensors, and whole checkpoints.

What is imported here needs no fairseq. Reading checkpoints and data does:
``diverse_mha.evaluation.checkpoints``.
"""

from diverse_mha.measures.attention_weights import Sharpness, attention_entropy, jensen_shannon
from diverse_mha.measures.moments import Moments
from diverse_mha.measures.similarity import Svcca, cka, svcca
from diverse_mha.methods.disagreement import disagreement_scores

__all__ = [
    "Moments",
    "Sharpness",
    "Svcca",
    "attention_entropy",
    "cka",
    "disagreement_scores",
    "jensen_shannon",
    "svcca",
]
