"""How much attention heads differ: measures on plain tensors, and whole checkpoints.

What is imported here needs no fairseq. Reading checkpoints and data does:
``diverse_mha.analysis.checkpoints``, ``diverse_mha.analysis.stock``.
"""

from diverse_mha.analysis.divergence import jensen_shannon
from diverse_mha.analysis.entropy import Sharpness, attention_entropy
from diverse_mha.analysis.moments import Moments
from diverse_mha.analysis.similarity import Svcca, cka, svcca
from diverse_mha.regularizers import disagreement_scores

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
