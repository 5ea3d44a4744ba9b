"""Label-smoothed cross-entropy with diversity terms, for translation."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.diversity import DiversityMixin
from diverse_mha.criterions.terms import DiversityTerms


@dataclass
class LabelSmoothedDiversityConfig(DiversityConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options and ours."""


@register_criterion(
    "label_smoothed_cross_entropy_with_diversity", dataclass=LabelSmoothedDiversityConfig
)
class LabelSmoothedCrossEntropyWithDiversity(DiversityMixin, LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy`` plus the terms that are switched on.

    fairseq fills the parameters by name from the options, so all are spelled out.
    """

    def __init__(
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size=0,
        report_accuracy=False,
        disagreement=None,
        disagreement_on=None,
        disagreement_weight=1.0,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.diversity = DiversityTerms(disagreement, disagreement_on, disagreement_weight)
