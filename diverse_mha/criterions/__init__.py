"""The criterions; importing this registers them with fairseq."""

from diverse_mha import compat  # noqa: F401  first of all
from diverse_mha.criterions.cross_entropy import (
    AdaptiveLossWithDiversity,
    CrossEntropyWithDiversity,
)
from diverse_mha.criterions.label_smoothed import LabelSmoothedCrossEntropyWithDiversity
from diverse_mha.criterions.sentence_classification import SentenceClassificationWithDiversity

__all__ = [
    "AdaptiveLossWithDiversity",
    "CrossEntropyWithDiversity",
    "LabelSmoothedCrossEntropyWithDiversity",
    "SentenceClassificationWithDiversity",
]
