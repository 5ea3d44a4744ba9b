"""Label-smoothed cross-entropy with diversity terms, for translation."""

from dataclasses import dataclass, field

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel

from diverse_mha.common.errors import OptionError
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.diversity import DiversityMixin, Recorder
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss

TOKEN_LOSSES = ("auto", "fused", "stock")


@dataclass
class LabelSmoothedDiversityConfig(DiversityConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options and ours."""

    token_loss: ChoiceEnum(TOKEN_LOSSES) = field(
        default="auto",
        metadata={
            "help": "how the token loss is computed: stock (fairseq's code), fused (output "
            "projection and loss in one, block by block: same value to rounding, less time and "
            "memory), or auto (fused in one process on the CPU, stock otherwise)"
        },
    )


@register_criterion(
    "label_smoothed_cross_entropy_with_diversity", dataclass=LabelSmoothedDiversityConfig
)
class LabelSmoothedCrossEntropyWithDiversity(DiversityMixin, LabelSmoothedCrossEntropyCriterion):
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
        if not 0 <= cfg.label_smoothing < 1:
            raise OptionError(
                f"--label-smoothing {cfg.label_smoothing}: must be at least 0 and below 1"
            )
        criterion = super().build_criterion(cfg, task)
        criterion.token_loss = str(cfg.token_loss)
        return criterion

    def output_weight(self, model, reduce):
        """Return the output projection's weight if the loss is to be fused with it.

        Raises:
            OptionError: if that was asked for and the model has no plain projection.
        """
        if self.token_loss == "stock" or not reduce or self.report_accuracy:
            return None
        # What wraps a model for several processes must see its parameters used inside.
        bare = isinstance(model, BaseFairseqModel) and not torch.is_autocast_enabled()
        weight = model.output_weight() if bare and hasattr(model, "output_weight") else None
        if self.token_loss == "fused":
            if weight is None:
                raise OptionError(
                    "--token-loss fused needs one process and a model of this package with a "
                    "plain output projection; give --token-loss auto"
                )
            return weight
        # With and without a term alike, so that a method and its baseline round alike.
        return weight if weight is not None and weight.device.type == "cpu" else None

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Compute the summed loss and negative log-likelihood of a batch."""
        weight = model.output_weight if isinstance(model, Recorder) else None
        if weight is None:
            return super().compute_loss(model, net_output, sample, reduce)
        prefix = self.ignore_prefix_size
        features = net_output[0][:, prefix:]
        target = model.get_targets(sample, net_output)[:, prefix:]
        return fused_label_smoothed_loss(features, weight, target, self.eps, self.padding_idx)
