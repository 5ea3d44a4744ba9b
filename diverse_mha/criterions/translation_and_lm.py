"""Criterions with diversity terms for translation and language models."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.adaptive_loss import AdaptiveLossConfig
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import check_option
from diverse_mha.common.ranges import ANY_COUNT, RATE
from diverse_mha.criterions.diversity import DiversityConfig, DiversityMixin
from diverse_mha.criterions.token_loss import FusedAdaptiveLoss, FusedTokenLoss, TokenLossConfig


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

    Without a term, ``--token-loss stock`` is fairseq's own computation, bit for bit. With
    ``--ignore-prefix-size`` the loss is a mean over the tokens after the prefix; fairseq-fixed
    0.12.3.1 divides by all tokens.
    """

    @classmethod
    def build_criterion(cls, cfg, task):
        """Check the options and build the criterion."""
        check_option(RATE, "label_smoothing", cfg.label_smoothing)
        check_option(ANY_COUNT, "ignore_prefix_size", cfg.ignore_prefix_size)
        return super().build_criterion(cfg, task)

    def forward(self, model, sample, reduce=True):
        """Return loss, sample size and logging output of a batch; see ``DiversityMixin``."""
        if self.ignore_prefix_size:
            counted = sample["target"][:, self.ignore_prefix_size :].ne(self.padding_idx)
            sample = {**sample, "ntokens": max(int(counted.sum()), 1)}
        return super().forward(model, sample, reduce)


@dataclass
class CrossEntropyDiversityConfig(TokenLossConfig, DiversityConfig, CrossEntropyCriterionConfig):
    """fairseq's options and ours."""


@register_criterion("cross_entropy_with_diversity", dataclass=CrossEntropyDiversityConfig)
# fairseq's reduce_metrics is a static method here and a class method elsewhere; calls are the same.
class CrossEntropyWithDiversity(  # pyright: ignore[reportIncompatibleMethodOverride]
    FusedTokenLoss, DiversityMixin, CrossEntropyCriterion
):
    """fairseq's ``cross_entropy`` plus the terms that are switched on."""


@dataclass
class AdaptiveDiversityConfig(TokenLossConfig, DiversityConfig, AdaptiveLossConfig):
    """fairseq's options and ours."""


@register_criterion("adaptive_loss_with_diversity", dataclass=AdaptiveDiversityConfig)
# As above.
class AdaptiveLossWithDiversity(  # pyright: ignore[reportIncompatibleMethodOverride]
    FusedTokenLoss, DiversityMixin, FusedAdaptiveLoss
):
    """fairseq's ``adaptive_loss`` plus the terms that are switched on."""

    @classmethod
    def build_criterion(cls, cfg, task):
        """Check the options and build the criterion."""
        if cfg.ddp_backend in {"c10d", "pytorch_ddp"}:
            why = ": does not support the adaptive loss; give "
            given, cure = (Option("ddp_backend", x) for x in (cfg.ddp_backend, "legacy_ddp"))
            raise UserError(given, why, cure)
        return super().build_criterion(cfg, task)
