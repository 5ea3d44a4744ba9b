"""CKA with the RBF kernel, which needs the responses themselves."""

import torch
from torch import Tensor

WIDTH = 0.5  # of the median distance: the middle one of those Kornblith et al. 2019 try


def centred_rbf(x: Tensor, width: float = WIDTH) -> Tensor:
    """Centred kernel matrix C K C of (N, d) responses: (N, N) float64; zero if nothing varies.

    Kornblith et al. 2019, section 3: K_st = exp(-||x_s - x_t||^2 / (2 sigma^2)), sigma ``width``
    times the median distance between two positions.
    """
    if not bool(x.isfinite().all()):
        raise ValueError("a vector holds NaN or infinity; similarities would mean nothing")
    x = x.detach().double()
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    others = ~torch.eye(x.size(0), dtype=torch.bool, device=x.device)
    sigma = width * distance[others].median()
    if sigma <= 4 * torch.finfo(torch.float32).eps * x.abs().max():  # as moments.py has it
        return torch.zeros_like(distance)
    kernel = torch.exp(-0.5 * (distance / sigma).square())
    kernel = kernel - kernel.mean(dim=0)
    return kernel - kernel.mean(dim=1, keepdim=True)


def alignment(k: Tensor, m: Tensor) -> Tensor:
    """CKA of two centred kernel matrices; 0 if one is zero."""
    own = torch.linalg.matrix_norm(k) * torch.linalg.matrix_norm(m)
    return ((k * m).sum() / own).clamp(0, 1) if own > 0 else own
