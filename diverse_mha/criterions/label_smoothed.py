"""Label-smoothed cross-entropy with diversity terms, for translation."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import RATE
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.diversity import DiversityMixin
from diverse_mha.criterions.token_loss import FusedTokenLoss, TokenLossConfig


@dataclass
class LabelSmoothedDiversityConfig(
    TokenLossConfig, DiversityConfig, LabelSmoothedCrossEntropyCriterionConfig
):
    """fairseq's options and ours."""


@register_criterion(
    "label_smoothed_cross_entropy_with_diversity", dataclass=LabelSmoothedDiversityConfig
)
class LabelSmoothedCrossEntropyWithDiversity(
    FusedTokenLoss, DiversityMixin, LabelSmoothedCrossEntropyCriterion
):
    """fairseq's ``label_smoothed_cross_entropy`` plus the terms that are switched on.

    With no term on, ``--token-loss stock`` is fairseq's own computation, bit for bit.
    """

    @classmethod
    def build_criterion(cls, cfg, task):
        """Build the criterion from the options.

        Raises:
            OptionError: for options that are impossible or contradict each other.
        """
        if str(cfg.token_loss) == "fused" and cfg.report_accuracy:
            raise OptionError(
                "--token-loss fused keeps no scores to report the accuracy of; "
                "leave out --report-accuracy, or give --token-loss stock"
            )
        RATE.check_option("label_smoothing", cfg.label_smoothing)
        return super().build_criterion(cfg, task)
