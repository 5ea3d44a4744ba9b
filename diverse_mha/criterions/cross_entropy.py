"""Cross-entropy and adaptive-softmax loss with diversity terms, for language models."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.adaptive_loss import AdaptiveLossConfig
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig

from diverse_mha.common.errors import OptionError
from diverse_mha.criterions.adaptive import FusedAdaptiveLoss
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.diversity import DiversityMixin
from diverse_mha.criterions.token_loss import FusedTokenLoss, TokenLossConfig


@dataclass
class CrossEntropyDiversityConfig(TokenLossConfig, DiversityConfig, CrossEntropyCriterionConfig):
    """fairseq's options and ours."""


@register_criterion("cross_entropy_with_diversity", dataclass=CrossEntropyDiversityConfig)
class CrossEntropyWithDiversity(FusedTokenLoss, DiversityMixin, CrossEntropyCriterion):
    """fairseq's ``cross_entropy`` plus the terms that are switched on."""


@dataclass
class AdaptiveDiversityConfig(TokenLossConfig, DiversityConfig, AdaptiveLossConfig):
    """fairseq's options and ours."""


@register_criterion("adaptive_loss_with_diversity", dataclass=AdaptiveDiversityConfig)
class AdaptiveLossWithDiversity(FusedTokenLoss, DiversityMixin, FusedAdaptiveLoss):
    """fairseq's ``adaptive_loss`` plus the terms that are switched on."""

    @classmethod
    def build_criterion(cls, cfg, task):
        """Check the options and build the criterion."""
        if cfg.ddp_backend in {"c10d", "pytorch_ddp"}:
            raise OptionError(
                f"--ddp-backend {cfg.ddp_backend} does not go with the adaptive loss; "
                "give --ddp-backend legacy_ddp"
            )
        return super().build_criterion(cfg, task)
