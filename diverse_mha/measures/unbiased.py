"""Unbiased CKA, and the norms of head outputs that it needs in addition to the moments."""

import math

import torch
from torch import Tensor

from diverse_mha.measures.moments import Moments


class NormMoments:
    """Accumulates ``sum_t |x_t - mean|^2 |y_t - mean|^2`` of every pair of heads.

    Use it beside :class:`diverse_mha.measures.moments.Moments` in one pass over the data, then call
    :func:`unbiased_cka`.

    x_t and y_t are the outputs of the two heads at position t. The mean of each head is only known
    at the end, so the sums use a fixed reference r instead. With u = x - r and d = mean - r::

        |x - mean|^2 = |u|^2 - 2 u.d + |d|^2

    The result follows from d and the sums of ``|u|^2 |u'|^2``, ``|u|^2 u'`` and ``u u'``, where u'
    belongs to the other head.

    Args:
        num_heads: number of heads H.
    """

    def __init__(self, num_heads: int):
        self.num_heads = num_heads
        self._reference: Tensor | None = None  # r, (H * D,): the mean of the first rows
        self._fourth: Tensor | float = 0.0  # (H, H)
        self._third: Tensor | float = 0.0  # (H, H * D)

    def update(self, x: Tensor) -> None:
        """Add rows (N, H * D), in the precision of ``Moments``."""
        if not len(x):
            return
        x = x.detach().double()
        if self._reference is None:
            self._reference = x.mean(dim=0)
        x = x - self._reference
        norms = x.unflatten(1, (self.num_heads, -1)).square().sum(dim=2)  # (N, H)
        self._fourth = self._fourth + norms.T @ norms
        self._third = self._third + norms.T @ x

    def result(self, moments: Moments) -> Tensor:
        """Return the sums, centred on the mean of all rows: (H, H) float64."""
        reference = 0.0 if self._reference is None else self._reference  # None: no rows
        shift = moments.mean - reference
        by_head = shift.view(self.num_heads, -1)
        outer = torch.outer(shift, shift) * moments.count
        second = moments.scatter() + outer  # sums of u u'
        scaled = torch.block_diag(*by_head.unsqueeze(2))  # (H * D, H)
        norms = second.diagonal().view(self.num_heads, -1).sum(dim=1)  # sums of |u|^2
        length = by_head.square().sum(dim=1)  # |d|^2
        third = self._third @ scaled  # sums of |u|^2 u'.d'
        first = (moments.count * shift) @ scaled  # sums of u.d
        half = -2 * third + torch.outer(norms, length) - 2 * torch.outer(first, length)
        return (
            self._fourth
            + half
            + half.T
            + 4 * scaled.T @ second @ scaled
            + moments.count * torch.outer(length, length)
        )


def unbiased_cka(blocks: Tensor, norms: Tensor, count: int) -> Tensor:
    """Return the linear CKA of every pair of heads, from unbiased estimates of HSIC.

    Choose it instead of :func:`diverse_mha.measures.similarity.cka` if you have few positions, or
    compare heads of different widths.

    Song et al. 2012, Eq. 5 (HSIC_1), for linear kernels of centred X and Y of n rows::

        n (n - 3) HSIC_1 = |X^T Y|^2 + tr(X^T X) tr(Y^T Y) / ((n - 1)(n - 2))
                           - n / (n - 2) sum_t |x_t|^2 |y_t|^2

    Args:
        blocks: scatter of every pair of heads, (H, H, D, D).
        norms: result of :meth:`NormMoments.result`, (H, H).
        count: n, at least 4.

    Returns:
        (H, H), about 0 for independent heads, 1 on the diagonal; may be negative. Values of a head
        are 0 if the HSIC of the head with itself is not positive.
    """
    trace = blocks.diagonal(dim1=0, dim2=1).diagonal(dim1=0, dim2=1).sum(dim=1)  # (H,)
    hsic = blocks.square().sum(dim=(2, 3)) - norms * count / (count - 2)
    hsic = hsic + torch.outer(trace, trace) / ((count - 1) * (count - 2))
    own = hsic.diagonal()
    defined = (own > 0)[:, None] & (own > 0)
    scale = own.clamp_min(torch.finfo(own.dtype).tiny).sqrt()
    return torch.where(defined, hsic / torch.outer(scale, scale), 0.0)


def positions_needed(biased: float, unbiased: float, count: int, most: float = 0.02) -> int:
    """Return the number of positions that reduce the bias of CKA to ``most``.

    Use it before a measurement, to choose how much data to read.

    For heads of effective width d and unbiased CKA u, the bias at n positions is
    (1 - u) d / (n + d). The formula was compared with :func:`unbiased_cka` on random heads.

    Args:
        biased: CKA with its bias, more than ``unbiased`` and less than 1.
        unbiased: unbiased CKA of the same heads.
        count: n, the number of positions on which both were measured.
        most: the largest permitted bias.

    Example:
        >>> positions_needed(biased=0.2, unbiased=0.0, count=256)  # heads of width 64
        3136
    """
    width = count * (biased - unbiased) / (1 - biased)  # d
    return math.ceil(max(width * ((1 - unbiased) / most - 1), count))
