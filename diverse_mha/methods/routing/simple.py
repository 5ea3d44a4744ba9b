"""Simple routing: capsules move towards the votes that agree with them."""

import torch
from torch import Tensor

from diverse_mha.common.options import COUNT
from diverse_mha.methods.routing.votes import check_votes

SOFTMAX_OVER = ("capsules", "heads")


def check_softmax_over(value: str) -> None:
    """Raise ValueError for a value that is not in ``SOFTMAX_OVER``."""
    if value not in SOFTMAX_OVER:
        raise ValueError(f"softmax_over is {value!r}; expected one of {SOFTMAX_OVER}")


def simple_routing(votes: Tensor, iterations: int = 3, *, softmax_over: str = "capsules") -> Tensor:
    """Route votes to capsules by their scalar product with the capsules.

    Li et al. 2021, Algorithm 1, Eq. 10 and 11, per token. B = 0; then, ``iterations`` times::

        C_hn  = exp(B_hn) / sum_n' exp(B_hn')
        x_n   = sum_h C_hn V_hn / sum_h C_hn
        Omega_n = ||x_n||^2 / (1 + ||x_n||^2) * x_n / ||x_n||
        B_hn += Omega_n . V_hn

    and the result is the last Omega.

    Args:
        votes: (K, H, N, D): K tokens, H heads, N capsules of D dimensions; any floating-point
            dtype. Votes up to about 1e10 in size are safe.
        iterations: how often to form the capsules, at least 1.
        softmax_over: ``"capsules"``: C sums to one over the capsules of a head, as in the
            paper. ``"heads"``: over the heads of a capsule, as in the authors' released code.

    Returns:
        (K, N, D), the output capsules, float32 (float64 for float64 votes); each shorter than 1.
    """
    check_votes(votes)
    COUNT.check("iterations", iterations)
    check_softmax_over(softmax_over)
    votes = votes.to(torch.promote_types(votes.dtype, torch.float32))
    scalar = votes.size(-1) == 1
    if scalar:
        votes = votes.squeeze(-1)  # (K, H, N)

    logits = None  # B, (K, H, N)
    for step in range(iterations):
        if logits is None:
            total = votes.mean(dim=1)  # (K, N[, D])
        else:
            # C_hn / sum_h C_hn as a softmax over heads: never 0 / 0.
            log_c = logits.log_softmax(dim=2) if softmax_over == "capsules" else logits
            share = log_c.softmax(dim=1)  # (K, H, N)
            total = ((share if scalar else share.unsqueeze(-1)) * votes).sum(dim=1)
        capsules = squash(total, scalar)  # (K, N[, D])
        if step < iterations - 1:
            agreement = capsules.unsqueeze(1) * votes  # (K, H, N[, D])
            agreement = agreement if scalar else agreement.sum(dim=-1)
            logits = agreement if logits is None else logits + agreement
    return capsules.unsqueeze(-1) if scalar else capsules


def squash(x: Tensor, scalar: bool) -> Tensor:
    """Shorten vectors (..., D) to ||x||^2 / (1 + ||x||^2), or the elements of (...) if ``scalar``.

    Li et al. 2021, Eq. 11; 0 with zero gradient at the zero vector.
    """
    if scalar:
        return x * x.abs() / (1.0 + x.square())
    square = x.square().sum(dim=-1, keepdim=True)
    # The square root has no gradient at 0.
    nonzero = torch.where(square > 0, square, 1.0)
    return x * torch.where(square > 0, nonzero.sqrt() / (1.0 + nonzero), 0.0)
