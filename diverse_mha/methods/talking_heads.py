"""Talking heads: logits and weights mixed across the heads (Shazeer et al. 2020)."""

import torch
from torch import Tensor, nn

from diverse_mha.attention.registries import LOGITS, LogitMap
from diverse_mha.common.options import Method, Place
from diverse_mha.common.ranges import COUNT


class TalkingHeads(LogitMap):
    """Learnt linear maps across the heads, one before and one after the softmax.

    Choose it to let heads share their logits and weights. It needs the explicit attention weights,
    so it is slower and takes more memory than fused attention; it starts as plain attention.

    Shazeer et al. 2020, section 4, with H heads before, between and after the maps, at every pair
    of a query and a key::

        J_k = sum_h (q_h . k_h / sqrt(D)) P_hk        W = softmax(J)        U_k = sum_h W_h Q_hk

    U_k weighs the values of head k; its rows need not add up to 1. P and Q start as the identity;
    the paper draws them at random. Masked keys stay masked.

    Args:
        num_heads: H.

    Example:
        >>> import torch
        >>> talking = TalkingHeads(2)
        >>> _ = talking.before.data.fill_(0.5)  # both heads get the mean of their logits
        >>> talking(torch.tensor([1.0, 3.0]).view(1, 2, 1, 1)).flatten().tolist()
        [2.0, 2.0]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        COUNT.check("num_heads", num_heads)
        self.before = nn.Parameter(torch.eye(num_heads))  # P
        self.after = nn.Parameter(torch.eye(num_heads))  # Q

    def forward(
        self,
        logits: Tensor,
        previous: Tensor | None = None,
        masked: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Return J, (B, H, T, S), from q.k."""
        return _mix(logits, self.before)

    def after_softmax(self, weights: Tensor, scores: Tensor | None = None) -> Tensor:
        """Return U, (B, H, T, S), from W."""
        return _mix(weights, self.after)


def _mix(x: Tensor, across: Tensor) -> Tensor:
    return torch.einsum("bhts,hk->bkts", x, across.to(x.dtype))


def _build(options, place: Place) -> TalkingHeads:
    return TalkingHeads(place.num_heads)


LOGITS.register(
    Method(
        "talking-heads",
        "talking-heads (mix logits and weights across heads, Shazeer et al. 2020)",
        _build,
    )
)
