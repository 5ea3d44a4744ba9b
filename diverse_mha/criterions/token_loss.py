"""Chooses who computes the token loss: fairseq's code, or output projection and loss in one."""

from dataclasses import dataclass, field

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel
from torch import Tensor

from diverse_mha.criterions.diversity import Recorder
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss

TOKEN_LOSSES = ("auto", "stock")


@dataclass
class TokenLossConfig:
    """The option of ``FusedTokenLoss``."""

    token_loss: ChoiceEnum(TOKEN_LOSSES) = field(
        default="auto",
        metadata={
            "help": "how the token loss is computed: stock (fairseq's code), or auto (in one "
            "process on a CPU or a CUDA GPU without --amp, output projection and loss together, "
            "equal to rounding, in less time and memory; else stock)"
        },
    )


class FusedTokenLoss:
    """Lets a criterion over words apply the output projection itself.

    Comes before ``DiversityMixin`` among the bases. It uses the criterion's ``eps`` (label
    smoothing), ``ignore_prefix_size`` and ``report_accuracy``.
    """

    eps = 0.0
    ignore_prefix_size = 0
    report_accuracy = False
    token_loss: str

    @classmethod
    def build_criterion(cls, cfg, task):
        """Build the criterion from the options."""
        criterion = super().build_criterion(cfg, task)
        criterion.token_loss = str(cfg.token_loss)
        return criterion

    def output_weight(self, model, reduce: bool) -> Tensor | None:
        """Return the output projection's weight if the loss is fused with it, else None."""
        if self.token_loss == "stock" or not reduce or self.report_accuracy:
            return None
        # What wraps a model for several processes must see its parameters used inside.
        bare = isinstance(model, BaseFairseqModel) and hasattr(model, "output_weight")
        weight = model.output_weight() if bare else None
        if weight is None or torch.is_autocast_enabled(weight.device.type):
            return None
        # With and without a term, so that a method and its baseline round in the same way.
        return weight if weight.device.type in ("cpu", "cuda") else None

    def compute_loss(self, model, net_output, sample, reduce=True):
        """Return the summed loss and negative log-likelihood of a batch."""
        weight = model.output_weight if isinstance(model, Recorder) else None
        if weight is None:
            return super().compute_loss(model, net_output, sample, reduce)
        prefix = self.ignore_prefix_size
        features = net_output[0][:, prefix:]
        target = model.get_targets(sample, net_output)[:, prefix:]
        return fused_label_smoothed_loss(features, weight, target, self.eps, self.padding_idx)
