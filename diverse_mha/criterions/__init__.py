"""The criterions; importing this registers them with fairseq."""

from diverse_mha.criterions.cross_entropy import (
    AdaptiveLossWithDiversity,
    CrossEntropyWithDiversity,
)
from diverse_mha.criterions.label_smoothed import LabelSmoothedCrossEntropyWithDiversity

__all__ = [
    "AdaptiveLossWithDiversity",
    "CrossEntropyWithDiversity",
    "LabelSmoothedCrossEntropyWithDiversity",
]
