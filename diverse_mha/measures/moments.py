"""Computes mean and scatter matrix of a stream of vectors in constant memory."""

import torch
from torch import Tensor

CHUNK = 2**19  # elements in float64 at once: 4 MiB
BLOCK = 64  # columns; only blocks on and above the diagonal are computed


class Moments:
    """Accumulates the count, the mean and the scatter matrix sum_t (x_t - mean)(x_t - mean)^T.

    Use it to measure more data than fits into memory: one pass, in batches.

    Chan, Golub and LeVeque 1983: each chunk is centred on its own mean, then merged::

        n = n_a + n_b      delta = mean_b - mean_a
        mean = mean_a + delta n_b / n
        scatter = scatter_a + scatter_b + delta delta^T n_a n_b / n

    Everything is computed in float64, so the order and size of batches only change rounding.

    Attributes:
        count: number of vectors so far.
        mean: (d,) float64; zero before the first vector.

    Example:
        >>> import torch
        >>> x = torch.randn(30, 4)
        >>> moments = Moments(4)
        >>> for batch in x.split(10):
        ...     moments.update(batch)
        >>> torch.allclose(moments.mean, x.double().mean(dim=0))
        True
    """

    count: int
    mean: Tensor

    def __init__(self, width: int, device: torch.device | str = "cpu"):
        """Start empty, for vectors of length d = ``width``."""
        self.count = 0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self._upper = torch.zeros(width, width, dtype=torch.float64, device=device)
        self._resolution = 0.0

    def update(self, x: Tensor) -> None:
        """Add vectors (N, d) of any floating-point dtype; no gradient is kept.

        Raises:
            ValueError: if a value is not finite.
        """
        self._resolution = max(self._resolution, resolution(x.dtype))
        rows = max(CHUNK // self.mean.numel(), 1)
        for chunk in x.detach().to(self.mean.device).split(rows):
            if chunk.size(0):
                self._merge_chunk(chunk.to(self.mean))

    def _merge_chunk(self, x: Tensor) -> None:
        count, width = x.shape
        mean = x.mean(dim=0)
        if not bool(mean.isfinite().all()):
            raise ValueError("a vector holds NaN or infinity; similarities would mean nothing")
        x = x - mean
        for start in range(0, width, BLOCK):
            columns = slice(start, start + BLOCK)
            self._upper[columns, start:].addmm_(x[:, columns].T, x[:, start:])
        total = self.count + count
        delta = mean - self.mean
        self._upper.addr_(delta, delta, alpha=self.count * count / total)
        self.mean += delta * (count / total)
        self.count = total

    def scatter(self) -> Tensor:
        """Return the scatter matrix: (d, d) float64, symmetric.

        If a coordinate varies by no more than the rounding of its mean, its row and column are 0.
        """
        upper = self._upper.triu()
        scatter = upper + upper.triu(1).T
        spread = scatter.diagonal().clamp_min(0) / max(self.count, 1)
        still = spread.sqrt() <= self._resolution * self.mean.abs()
        return scatter.masked_fill(still, 0.0).masked_fill(still.unsqueeze(1), 0.0)


def resolution(dtype: torch.dtype) -> float:
    """Return the relative size of rounding in vectors of a dtype.

    The result is 4 eps for float32 and float64, because a weighted sum over a long sentence is
    rounded more than once. For half precision it is eps.
    """
    times = 4 if dtype in (torch.float32, torch.float64) else 1
    return times * torch.finfo(dtype).eps
