"""The loss of an adaptive softmax without the logits of a whole batch."""

from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.modules.adaptive_softmax import AdaptiveSoftmax
from torch import Tensor

from diverse_mha.criterions.diversity import Recorder
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss


class FusedAdaptiveLoss(AdaptiveLoss):
    """fairseq's ``adaptive_loss``; the last base, after ``FusedTokenLoss`` and ``DiversityMixin``.

    If the model gives its output weight, projections and loss are fused.
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
    """Sum over real positions of fairseq's adaptive loss (Grave et al. 2017), band by band.

    With c the cutoff of the frequent words, d that of band b and y a word in it::

        loss = -log softmax(W f)_(c + b) - log softmax(W_b P_b f)_(y - d)

    and -log softmax(W f)_y for a frequent word. As in fairseq, only the first part counts for the
    word d + padding_idx of a band.

    Args:
        softmax: has the dropouts and the bands' P_b and W_b.
        head: W, (c + number of bands, C).
        features: (B, T, C).
        target: (B, T) word numbers.
        padding_idx: target number that is left out.

    Returns:
        A scalar, in nats; differentiable once.
    """
    rows = softmax.dropout_module(features.reshape(-1, features.size(-1)))
    words, rows_of = softmax.adapt_target(target)
    loss, _ = fused_label_smoothed_loss(rows, head, words[0], 0.0, padding_idx)
    for tail, of_band, chosen in zip(softmax.tail, words[1:], rows_of, strict=True):
        if chosen is not None:
            inner = tail[:-1](rows.index_select(0, chosen))
            loss += fused_label_smoothed_loss(inner, tail[-1].weight, of_band, 0.0, padding_idx)[0]
    return loss
