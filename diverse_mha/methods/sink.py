"""A learnt attention sink per head: a logit that takes attention weight but has no value."""

import torch
from torch import Tensor, nn

from diverse_mha.attention.registries import LOGITS, LogitMap
from diverse_mha.common.options import Method, Place
from diverse_mha.common.ranges import COUNT


class Sink(LogitMap):
    """One more key per head in the softmax, with a learnt logit and the value 0.

    Choose it to let a head attend to nothing. It has one parameter for each head.

    s_h is learnt as in gpt-oss (OpenAI 2025); Xiao et al. 2024 (arXiv 2309.17453) use s_h = 0::

        weights_h = exp(z_h) / (sum exp(z_h) + exp(s_h)) = softmax(z_h) sigmoid(lse(z_h) - s_h)

    z are the logits; lse is the logarithm of the sum of exponentials over the keys that are not
    masked. Rows then sum to less than 1. s starts at 0, as in Xiao et al. Recorded weights are
    those before the sink takes its share: their rows sum to 1.

    Args:
        num_heads: H.

    Example:
        >>> import torch
        >>> weights, logits = torch.full((1, 1, 1, 4), 0.25), torch.zeros(1, 1, 1, 4)
        >>> taken = Sink(1).after_softmax(weights, logits)  # the sink's logit starts at 0, too
        >>> round(taken.sum().item(), 2)  # four keys and the sink have the same share
        0.8
    """

    def __init__(self, num_heads: int):
        super().__init__()
        COUNT.check("num_heads", num_heads)
        self.logit = nn.Parameter(torch.zeros(num_heads))  # s

    def forward(
        self,
        logits: Tensor,
        previous: Tensor | None = None,
        masked: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Return the logits as they are, (B, H, T, S)."""
        return logits

    def after_softmax(self, weights: Tensor, scores: Tensor) -> Tensor:
        """Return the weights of the keys, reduced by the sink, (B, H, T, S)."""
        exact = torch.promote_types(scores.dtype, torch.float32)
        total = torch.logsumexp(scores.to(exact), dim=-1, keepdim=True)  # (B, H, T, 1)
        share = torch.sigmoid(total - self.logit.to(exact)[:, None, None])
        return weights * share.to(weights.dtype)


def _build(options, place: Place) -> Sink:
    return Sink(place.num_heads)


LOGITS.register(
    Method(
        "sink",
        "sink (a learnt logit per head that takes attention weight, Xiao et al. 2024)",
        _build,
        head_axes={"logit": 0},
    )
)
