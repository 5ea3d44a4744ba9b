"""CKA with the RBF kernel, which needs the responses themselves."""

import torch
from torch import Tensor

WIDTH = 0.5  # of the median distance: the middle one of those Kornblith et al. 2019 try


def cka_rbf(x: Tensor, y: Tensor, width: float = WIDTH) -> float:
    """Centred kernel alignment with K_st = exp(-||x_s - x_t||^2 / (2 sigma^2)).

    Kornblith et al. 2019, section 3: sigma is ``width`` times the median distance between two
    positions of the same side.

    Args:
        x: (N, d), one row a position. Memory and time grow with N^2: a few thousand rows.
        y: (N, d'), the same positions.
        width: sigma in units of the median distance.

    Returns:
        In [0, 1]; higher = more alike; 0 if one side does not vary.

    Raises:
        ValueError: if the shapes do not fit, a value is not finite, or ``width`` is not
            positive.
    """
    if x.dim() != 2 or y.dim() != 2 or x.size(0) != y.size(0) or x.size(0) < 2:
        raise ValueError(
            f"cka: got {tuple(x.shape)} and {tuple(y.shape)}; expected (N, d) and (N, d'), the "
            "same positions, at least 2"
        )
    if not width > 0:
        raise ValueError(f"width {width}: must be positive")
    return float(alignment(centred_rbf(x, width), centred_rbf(y, width)))


def centred_rbf(x: Tensor, width: float = WIDTH) -> Tensor:
    """C K C for the RBF kernel of (N, d) responses: (N, N) float64; zero if nothing varies."""
    if not bool(x.isfinite().all()):
        raise ValueError("a vector holds NaN or infinity; similarities would mean nothing")
    x = x.detach().double()
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    others = ~torch.eye(x.size(0), dtype=torch.bool, device=x.device)
    sigma = width * distance[others].median()
    if sigma <= torch.finfo(torch.float32).eps * x.abs().max():
        return torch.zeros_like(distance)
    kernel = torch.exp(-0.5 * (distance / sigma).square())
    kernel = kernel - kernel.mean(dim=0)
    return kernel - kernel.mean(dim=1, keepdim=True)


def alignment(k: Tensor, m: Tensor) -> Tensor:
    """CKA of two centred kernel matrices; 0 if one is zero."""
    own = torch.linalg.matrix_norm(k) * torch.linalg.matrix_norm(m)
    return ((k * m).sum() / own).clamp(0, 1) if own > 0 else own
