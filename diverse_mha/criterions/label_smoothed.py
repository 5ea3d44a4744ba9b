"""Label-smoothed cross-entropy with diversity terms, for translation."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.diversity import DiversityMixin


@dataclass
class LabelSmoothedDiversityConfig(DiversityConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options and ours."""


@register_criterion(
    "label_smoothed_cross_entropy_with_diversity", dataclass=LabelSmoothedDiversityConfig
)
class LabelSmoothedCrossEntropyWithDiversity(DiversityMixin, LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy`` plus the terms that are switched on."""
