"""CKA and SVCCA between the outputs of heads, or from scatter matrices of the outputs."""

from typing import NamedTuple

import torch
from torch import Tensor

from diverse_mha.measures.moments import Moments

THRESHOLD = 0.99  # share of the variance that SVCCA keeps
TOP_SHARE = 0.98  # share of the coefficients' sum, as in the code of Raghu et al.
FEWEST = 3  # minimum number of positions; with two, CKA is always 1
RANK_TOLERANCE = 1e-12  # smaller eigenvalues, relative to the largest, are rounding errors


class Svcca(NamedTuple):
    """Result of SVCCA, with both readings of Yun et al. 2021, section 3.2 (docs/analysis.md)."""

    mean: float  # mean canonical correlation, in [0, 1]; higher = more similar
    coefficients: Tensor  # (k,) float64, in descending order; k may be 0
    kept: tuple[int, int]  # number of directions kept of x and of y

    @property
    def top_mean(self) -> float:
        """Mean of the fewest leading coefficients that cover 98 % of their sum; 0 if none exist.

        The code of Raghu et al. 2017 returns this.
        """
        total = float(self.coefficients.sum())
        if not total:
            return 0.0
        short = self.coefficients.cumsum(0) / total < TOP_SHARE - 1e-12  # allows for rounding
        return float(self.coefficients[: int(short.sum()) + 1].mean())


def cka(x: Tensor, y: Tensor) -> float:
    """Return the linear centred kernel alignment of two sets of vectors at the same positions.

    Choose it to ask whether two heads produce the same information. Take at least a thousand
    positions, because CKA of few positions is too high;
    :func:`diverse_mha.measures.unbiased.unbiased_cka` corrects for that.

    Kornblith et al. 2019; Yun et al. 2021, Eq. 3-4, with the square root that their text lacks.
    With the kernel matrices K = x x^T and L = y y^T, and C = I - 11^T/N::

        CKA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))    HSIC(K, L) = tr(K C L C) / (N - 1)^2

    Args:
        x: (N, d), one row per position; any floating-point dtype; computed in float64.
        y: (N, d'), the same positions.

    Returns:
        In [0, 1]; 1 = equal up to rotation, scale and shift; 0 if one side does not vary.

    Raises:
        ValueError: for wrong shapes, fewer than three positions, or values that are not finite.

    Example:
        >>> import torch
        >>> x = torch.randn(100, 8)
        >>> rotation = torch.linalg.qr(torch.randn(8, 8)).Q
        >>> round(cka(x, 3 * x @ rotation), 4)
        1.0
    """
    return float(cka_from_scatter(*_scatter_blocks("cka", x, y)))


def svcca(x: Tensor, y: Tensor, threshold: float = THRESHOLD) -> Svcca:
    """Return the SVCCA of two sets of vectors at the same positions.

    Choose it to compare with Yun et al. 2021. It ignores how much of the variance a shared
    direction has, so it is usually higher than CKA.

    Singular vector canonical correlation analysis (Raghu et al. 2017; Yun et al. 2021, section 3)
    centres both sets. It keeps k directions of x and k' directions of y: the leading principal
    directions that cover ``threshold`` of the variance (squared singular values). The result is the
    canonical correlations between the two kept subspaces.

    Args:
        x: (N, d), one row per position; any floating-point dtype; computed in float64.
        y: (N, d'), the same positions.
        threshold: share of the variance to keep, in (0, 1]; 1 keeps all above rounding.

    Returns:
        The min(k, k') coefficients and their means. A side that does not vary keeps no direction.

    Raises:
        ValueError: for wrong shapes or values, or too few positions: with k + k' > N - 1, some
            coefficients are 1 for any data.

    Example:
        >>> import torch
        >>> x = torch.randn(100, 8, dtype=torch.float64)
        >>> round(svcca(x, x).mean, 4)
        1.0
    """
    check_threshold(threshold)
    xx, xy, yy = _scatter_blocks("svcca", x, y)
    result = svcca_from_scatter(
        kept_directions(xx, threshold), xy, kept_directions(yy, threshold), x.size(0)
    )
    if result is None:
        raise ValueError(
            f"svcca: {x.size(0)} positions are too few for {x.size(1)} and {y.size(1)} "
            "dimensions; give more positions or a lower threshold"
        )
    return result


def check_threshold(threshold: float) -> None:
    """Raise ValueError for a share of variance outside (0, 1]."""
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold {threshold}: must be above 0 and at most 1, such as 0.99")


def cka_from_scatter(xx: Tensor, xy: Tensor, yy: Tensor) -> Tensor:
    """Return linear CKA from scatter blocks X^T C X, X^T C Y, Y^T C Y, or batches of them."""
    # Scaling by powers of 2 is exact. It keeps squares of very large and small values finite.
    x_scale, y_scale = (
        (torch.frexp(block.diagonal(dim1=-2, dim2=-1).amax(-1)).exponent // 2)[..., None, None]
        for block in (xx, yy)
    )
    xx, yy = torch.ldexp(xx, -2 * x_scale), torch.ldexp(yy, -2 * y_scale)
    xy = torch.ldexp(torch.ldexp(xy, -x_scale), -y_scale)
    cross = xy.square().sum(dim=(-2, -1))
    own = torch.linalg.matrix_norm(xx) * torch.linalg.matrix_norm(yy)
    return torch.where(own > 0, cross / own.clamp_min(torch.finfo(own.dtype).tiny), 0.0).clamp(0, 1)


def kept_directions(scatter: Tensor, threshold: float) -> Tensor:
    """Return the whitened leading principal directions of a (d, d) scatter matrix.

    Returns:
        (d, k): eigenvectors divided by the square root of their eigenvalue, the fewest that cover
        ``threshold`` of the trace; k = 0 for a zero matrix.
    """
    values, vectors = torch.linalg.eigh(scatter)
    values, vectors = values.flip(0), vectors.flip(1)
    real = int((values > RANK_TOLERANCE * scatter.size(0) * values[0].clamp_min(0)).sum())
    if values[0] <= 0:
        return vectors[:, :0]
    share = values[:real].cumsum(0) / values[:real].sum()
    # Because of rounding, the cumulated share may end slightly below 1.
    kept = min(int((share < threshold - 1e-15 * real).sum()) + 1, real)
    return vectors[:, :kept] / values[:kept].sqrt()


def svcca_from_scatter(x_kept: Tensor, xy: Tensor, y_kept: Tensor, count: int) -> Svcca | None:
    """Return the canonical correlations; None if there are too few positions.

    Args:
        x_kept: result of :func:`kept_directions` for X.
        xy: scatter block X^T C Y.
        y_kept: result of :func:`kept_directions` for Y.
        count: number of positions.
    """
    kept = (x_kept.size(1), y_kept.size(1))
    if count < 2 or sum(kept) > count - 1:
        return None
    if min(kept) == 0:
        return Svcca(0.0, xy.new_zeros(0), kept)
    coefficients = torch.linalg.svdvals(x_kept.T @ xy @ y_kept).clamp(0, 1)
    return Svcca(float(coefficients.mean()), coefficients, kept)


def _scatter_blocks(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Check both sides; return the blocks X^T C X, X^T C Y, Y^T C Y. ``name`` is for messages."""
    for side in (x, y):
        if side.dim() != 2 or not side.is_floating_point() or side.size(1) == 0:
            raise ValueError(
                f"{name}: got {tuple(side.shape)} of {side.dtype}; expected (N, d) of a "
                "floating-point dtype, one row per position"
            )
    if x.size(0) != y.size(0) or x.size(0) < FEWEST:
        raise ValueError(
            f"{name}: {x.size(0)} and {y.size(0)} positions; both sides need the same positions, "
            f"at least {FEWEST}"
        )
    moments = Moments(x.size(1) + y.size(1), x.device)
    moments.update(torch.cat([x, y.to(x.device)], dim=1))
    scatter, width = moments.scatter(), x.size(1)
    return scatter[:width, :width], scatter[:width, width:], scatter[width:, width:]
