"""Terms and the token loss in plain PyTorch, as they are defined: slower and larger, for tests."""

import torch
from torch import Tensor

from diverse_mha.attention.head_tensors import compute_dtype, real_position_weights
from diverse_mha.methods.disagreement.cosine import ZERO_NORM


def unit_vectors(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Divide head vectors (B, H, S, D) by their norms; zero for zero vectors and at padding."""
    x = x.to(compute_dtype(x))
    if padding_mask is not None:
        x = x.masked_fill(padding_mask[:, None, :, None], 0.0)
    norms = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / norms.masked_fill(norms <= ZERO_NORM, torch.inf)


def plain_mean_pairwise_cosine(
    x: Tensor, padding_mask: Tensor | None = None, *, off_diagonal: bool = False
) -> Tensor:
    """:func:`mean_pairwise_cosine` in plain PyTorch: its definition, slower and larger."""
    units = unit_vectors(x, padding_mask)
    sums = units.sum(dim=1).square().sum(dim=-1)  # (B, S)
    pairs = x.size(1) ** 2
    if off_diagonal:
        sums = sums - units.square().sum(dim=(1, 3))  # cos(x_i, x_i)
        pairs = max(1, x.size(1) * (x.size(1) - 1))
    return (sums * real_position_weights(padding_mask, sums, sums.shape)).sum() / pairs


def plain_mean_squared_cosine(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """:func:`mean_squared_cosine` in plain PyTorch: its definition, slower and larger."""
    units = unit_vectors(x, padding_mask).transpose(1, 2)  # (B, S, H, D)
    others = 1.0 - torch.eye(x.size(1)).to(units)
    squares = ((units @ units.transpose(2, 3)) * others).square().sum(dim=(2, 3))  # (B, S)
    pairs = max(1, x.size(1) * (x.size(1) - 1))
    return (squares * real_position_weights(padding_mask, squares, squares.shape)).sum() / pairs


def plain_hsic(rows: Tensor, kernel: str = "linear", bandwidth: float = 1.0) -> Tensor:
    """:func:`hsic`, ``trace``, of samples in plain PyTorch: its definition, slower and larger.

    Args:
        rows: (N, H, D), at least two samples, which differ in every head.
        kernel: ``"linear"`` or ``"rbf"``.
        bandwidth: as there.

    Returns:
        Scalar: the mean over the pairs of heads of tr(K_i C K_j C).
    """
    heads = rows.transpose(0, 1)  # (H, N, D)
    kernels = heads @ heads.transpose(1, 2)  # (H, N, N)
    if kernel == "rbf":
        distances = (heads.unsqueeze(2) - heads.unsqueeze(1)).square().sum(dim=3)
        pairs = torch.triu_indices(*distances.shape[1:], offset=1)
        median = distances.detach()[:, pairs[0], pairs[1]].median(dim=1).values
        kernels = torch.exp(distances / (-2.0 * bandwidth**2 * median[:, None, None]))
    centring = torch.eye(len(rows), dtype=rows.dtype, device=rows.device) - 1.0 / len(rows)
    centred = centring @ kernels @ centring
    first, second = torch.triu_indices(len(heads), len(heads), offset=1)
    return (centred[first] * centred[second]).sum(dim=(1, 2)).mean()


def plain_srip(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """:func:`srip`, ``exact``, in plain PyTorch: its definition, slower and larger."""
    columns = x.transpose(1, 2).to(compute_dtype(x))  # (B, L, H, D)
    if padding_mask is not None:
        columns = columns.masked_fill(padding_mask[:, :, None, None], 0.0)
    gap = columns @ columns.transpose(2, 3) - torch.eye(x.size(1)).to(columns)
    sigma = torch.linalg.eigvalsh(gap).abs().amax(dim=-1)  # (B, L)
    return (sigma * real_position_weights(padding_mask, sigma, sigma.shape)).sum()


def plain_label_smoothed_loss(
    features: Tensor, weight: Tensor, target: Tensor, epsilon: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """:func:`fused_label_smoothed_loss` in plain PyTorch: its definition, slower and larger."""
    real = target.ne(padding_idx)
    log_p = torch.log_softmax(features[real] @ weight.t(), dim=1)  # (N, V)
    nll = -log_p.gather(1, target[real].unsqueeze(1)).sum()
    even = epsilon / max(weight.size(0) - 1, 1)
    return (1.0 - epsilon - even) * nll - even * log_p.sum(), nll.detach()
