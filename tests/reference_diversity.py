"""Slow reference implementations of the equations of Yun et al. 2021.

They loop over pairs and positions and use full centring matrices. Use them in float64 with tiny
shapes.
"""

import numpy as np
import torch
from torch import Tensor


def real_rows(x: Tensor, padding_mask: Tensor | None = None) -> list[Tensor]:
    """Return, for each head, its vectors at the real positions (N, D), sentence by sentence."""
    bsz, num_heads, length, _ = x.shape
    places = [
        (b, t)
        for b in range(bsz)
        for t in range(length)
        if padding_mask is None or not padding_mask[b, t]
    ]
    return [torch.stack([x[b, h, t] for b, t in places]) for h in range(num_heads)]


def kernel_matrix(rows: Tensor) -> Tensor:
    """Return the linear kernel K_kl = x_k . x_l."""
    return torch.stack([torch.stack([torch.dot(a, b) for b in rows]) for a in rows])


def hsic(rows: list[Tensor], normalization="mean") -> Tensor:
    """HSIC (Yun et al. 2021, Eq. 4), averaged over pairs i < j; "mean" divides by (N - 1)^2."""
    count = len(rows[0])
    eye = torch.eye(count, dtype=torch.float64)
    centring = eye - torch.full_like(eye, 1 / count)
    kernels = [kernel_matrix(x) for x in rows]
    pairs = [
        torch.trace(kernels[i] @ centring @ kernels[j] @ centring)
        for j in range(len(rows))
        for i in range(j)
    ]
    value = sum(pairs) / len(pairs)
    return value / (count - 1) ** 2 if normalization == "mean" else value


def cka(rows: list[Tensor]) -> Tensor:
    """CKA (Yun et al. 2021, Eq. 3, with the square root), averaged over pairs of heads i < j."""
    pairs = [
        hsic([rows[i], rows[j]]) / (hsic([rows[i], rows[i]]) * hsic([rows[j], rows[j]])).sqrt()
        for j in range(len(rows))
        for i in range(j)
    ]
    return sum(pairs) / len(pairs)


def srip(x: Tensor, padding_mask: Tensor | None = None) -> float:
    """Return numpy's spectral norm of V^T V - I, averaged over real positions.

    The columns of V are the vectors of the heads at a position.
    """
    rows = [head.detach().numpy() for head in real_rows(x, padding_mask)]
    norms = []
    for position in range(len(rows[0])):
        v = np.stack([head[position] for head in rows], axis=1)  # (D, H)
        norms.append(np.linalg.norm(v.T @ v - np.eye(len(rows)), ord=2))
    return float(np.mean(norms))
