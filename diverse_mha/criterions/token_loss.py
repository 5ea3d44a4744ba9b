"""The token loss: fairseq's, or fused with the output projection, also for an adaptive softmax."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

import torch
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel
from fairseq.modules.adaptive_softmax import AdaptiveSoftmax
from torch import Tensor

from diverse_mha.common.options import option
from diverse_mha.common.typed import with_options
from diverse_mha.criterions.diversity import Recorder
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss

TOKEN_LOSSES = ("auto", "stock")


@dataclass
class TokenLossOptions:
    """How the token loss is computed.

    Leave it at ``auto``, which saves time and memory. Choose ``stock`` to compare with fairseq's
    own code.
    """

    token_loss: str = option(
        "auto",
        "how the token loss is computed: stock (fairseq's code), or auto (fused with the output "
        "projection, in less time and memory, equal up to rounding; stock with several processes "
        "or --amp)",
        choices=TOKEN_LOSSES,
    )


TokenLossConfig = with_options(FairseqDataclass, fields(TokenLossOptions), "TokenLossConfig")

if TYPE_CHECKING:  # the criterion after the mixin has what this one has
    from fairseq.criterions.label_smoothed_cross_entropy import (
        LabelSmoothedCrossEntropyCriterion as TokenCriterion,
    )
else:
    from fairseq.criterions import FairseqCriterion as TokenCriterion


class FusedTokenLoss(TokenCriterion):
    """Mixin: lets a criterion of translation or language models apply the output projection.

    List it before ``DiversityMixin`` among the base classes. It uses the criterion's ``eps`` (label
    smoothing), ``ignore_prefix_size`` and ``report_accuracy``.
    """

    eps = 0.0
    ignore_prefix_size = 0
    report_accuracy = False
    token_loss: str

    @classmethod
    def build_criterion(cls, cfg: Any, task):
        """Build the criterion from the options."""
        criterion = super().build_criterion(cfg, task)
        criterion.token_loss = str(cfg.token_loss)
        return criterion

    def output_weight(self, model, reduce: bool) -> Tensor | None:
        """Return the output projection's weight if the loss is fused with it, else None."""
        if self.token_loss == "stock" or not reduce or self.report_accuracy:
            return None
        # A wrapper for several processes, such as DDP's, must see all parameters used in its own
        # forward pass, so the projection stays there.
        bare = model if isinstance(model, BaseFairseqModel) else None
        of_model = getattr(bare, "output_weight", None)
        weight = of_model() if of_model is not None else None
        if weight is None or torch.is_autocast_enabled(weight.device.type):
            return None
        # Fuse the loss without terms, too, so that a method and its baseline round equally.
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


class FusedAdaptiveLoss(AdaptiveLoss):
    """fairseq's ``adaptive_loss``, fused with the projections if the model gives its output weight.

    List it last among the base classes, after ``FusedTokenLoss`` and ``DiversityMixin``.
    """

    def forward(self, model, sample, reduce=True):
        """Return loss in nats, sample size and logging output of a batch, as fairseq does."""
        head = model.output_weight if isinstance(model, Recorder) else None
        if head is None:
            return super().forward(model, sample, reduce)
        net_output = model(**sample["net_input"])
        target = model.get_targets(sample, net_output)
        softmax = model.decoder.adaptive_softmax
        loss = fused_adaptive_loss(softmax, head, net_output[0], target, self.padding_idx)
        sentences, tokens = target.size(0), int(target.ne(self.padding_idx).sum())
        size = sentences if self.sentence_avg else tokens
        counts = {"ntokens": tokens, "nsentences": sentences, "sample_size": size}
        return loss, size, {"loss": loss.detach(), **counts}


def fused_adaptive_loss(
    softmax: AdaptiveSoftmax, head: Tensor, features: Tensor, target: Tensor, padding_idx: int
) -> Tensor:
    """Return fairseq's adaptive loss (Grave et al. 2017), summed over real positions.

    For features f and a target word y in cluster b (from 0), whose words begin at index d, with c
    frequent words::

        loss = -log softmax(W f)_(c + b) - log softmax(W_b P_b f)_(y - d)

    and -log softmax(W f)_y for a frequent word. As in fairseq, the word d + padding_idx of a
    cluster gets the first summand only.

    Args:
        softmax: has the dropouts and the clusters' P_b and W_b.
        head: W, (c + number of clusters, C).
        features: (B, T, C).
        target: (B, T), word indices.
        padding_idx: index in ``target`` that is left out.

    Returns:
        A scalar, in nats; differentiable once.
    """
    rows = softmax.dropout_module(features.reshape(-1, features.size(-1)))
    words, rows_of = softmax.adapt_target(target)
    loss, _ = fused_label_smoothed_loss(rows, head, words[0], 0.0, padding_idx)
    tails = cast("Iterable[Any]", softmax.tail)  # torch types them as Module; they are Sequential
    for tail, of_band, chosen in zip(tails, words[1:], rows_of, strict=True):
        if chosen is not None:
            inner = tail[:-1](rows.index_select(0, chosen))
            loss += fused_label_smoothed_loss(inner, tail[-1].weight, of_band, 0.0, padding_idx)[0]
    return loss
