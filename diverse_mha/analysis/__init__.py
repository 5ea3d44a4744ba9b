"""Head analysis: similarity (CKA, SVCCA, JSD), attention entropy, importance, pruning, report.

The measures exported here take plain tensors and need no fairseq. ``analyze`` measures a checkpoint
over a split, which needs fairseq.
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
