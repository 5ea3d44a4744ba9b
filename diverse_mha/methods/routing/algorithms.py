"""Routing algorithms of Li et al. 2021: votes, simple routing and EM routing, as functions."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from diverse_mha.common.ranges import COUNT


def check_votes(votes: Tensor) -> None:
    """Raise ValueError unless votes are (K, H, N, D), H, N, D >= 1, of a floating-point dtype."""
    if votes.dim() != 4 or 0 in votes.shape[1:]:
        raise ValueError(
            f"votes has shape {tuple(votes.shape)}; expected (K, H, N, D), tokens, heads, "
            "capsules and dimensions, the last three at least 1"
        )
    if not votes.is_floating_point():
        raise ValueError(f"votes has dtype {votes.dtype}; expected a floating-point dtype")


VARIANCE_FLOOR = 1e-6  # also bounds the gradients
INVERSE_TEMPERATURE = (1.0, 3.0)  # lambda at the first and last iteration
LOG_2PI = math.log(2.0 * math.pi)


def em_routing(
    votes: Tensor,
    iterations: int = 3,
    *,
    activation: bool = True,
    activation_cost: float = 0.0,
    input_cost: float = 0.0,
    variance_floor: float = VARIANCE_FLOOR,
) -> Tensor:
    """Route votes to capsules by expectation maximisation.

    Choose it to combine heads by how well they agree: it had the largest gain in our study, which a
    repetition did not confirm. It costs about 1.2 times the time of an update in two layers.

    Li et al. 2021, Algorithm 2 and Eq. 12-15, per token, with V_hn the vote of head h for capsule
    n. C starts at 1/N; then, ``iterations`` times::

        M-step  mu_n  = sum_h C_hn V_hn / sum_h C_hn
                var_n = max(sum_h C_hn (V_hn - mu_n)^2 / sum_h C_hn, variance_floor)
                chi_n = sum_i (log var_n^i + 1 + log 2 pi) / 2 * sum_h C_hn
                A_n   = logistic(lambda (beta_A - beta_mu sum_h C_hn - chi_n))
        E-step  C_hn  = A_n P_hn / sum_n' A_n' P_hn',  P_hn = N(V_hn; mu_n, var_n)

    and the result is A_n mu_n of the last M-step. Deliberate differences and open points of the
    paper:

    - The paper prints P_hn as a sum over the dimensions i of a capsule; it is a product, as in a
      Gaussian density and in Hinton et al. 2018. It is computed in log space.
    - Variances are clamped, not shifted: the clamped variance is the exact optimum under the bound.
    - beta_A and beta_mu are constants, by default 0: the paper's parameter counts leave no room for
      learned values.
    - lambda follows :func:`inverse_temperatures`; the paper only says "a fixed schedule".

    Args:
        votes: (K, H, N, D): K tokens, H heads, N capsules of D dimensions; any floating-point
            dtype. Votes up to about 1e10 in size are safe.
        iterations: number of M-steps, at least 1.
        activation: False leaves A_n out, as the authors' released code does: C_hn is
            proportional to P_hn and the result is mu_n. Then every further iteration raises
            sum_h log sum_n N(V_hn; mu_n, var_n).
        activation_cost: beta_A.
        input_cost: beta_mu.
        variance_floor: lower bound of every variance.

    Returns:
        (K, N, D), the output capsules, float32 (float64 for float64 votes).

    Example:
        >>> import torch
        >>> votes = torch.randn(20, 8, 4, 16)  # (tokens, heads, capsules, width of a capsule)
        >>> em_routing(votes).shape
        torch.Size([20, 4, 16])
    """
    check_votes(votes)
    COUNT.check("iterations", iterations)
    votes = votes.to(torch.promote_types(votes.dtype, torch.float32))
    num_heads, capsules, dims = votes.shape[1:]
    scalar = dims == 1
    if scalar:  # no sums over i
        votes = votes.squeeze(-1)  # (K, H, N)

    mass, log_c = num_heads / capsules, None
    mean = logit = votes  # the first iteration replaces both
    for step, temperature in enumerate(inverse_temperatures(iterations)):
        if log_c is None:
            mean = votes.mean(dim=1)  # (K, N[, D])
            squares = (votes - mean.unsqueeze(1)).square()  # (K, H, N[, D])
            variance = squares.mean(dim=1)  # (K, N[, D])
        else:
            # C_hn / sum_h C_hn as a softmax: never 0 / 0.
            share = log_c.softmax(dim=1)  # (K, H, N)
            share = share if scalar else share.unsqueeze(-1)
            mean = (share * votes).sum(dim=1)  # (K, N[, D])
            squares = (votes - mean.unsqueeze(1)).square()  # (K, H, N[, D])
            variance = (share * squares).sum(dim=1)  # (K, N[, D])
            if activation:
                mass = log_c.exp().sum(dim=1)  # (K, N)
        variance = variance.clamp_min(variance_floor)
        log_deviation = _sum_dims(variance.log(), scalar) * 0.5  # (K, N): sum_i log sigma_i
        if activation:
            entropy = log_deviation + 0.5 * (1.0 + LOG_2PI) * dims
            logit = temperature * (activation_cost - input_cost * mass - entropy * mass)  # (K, N)
        if step == iterations - 1:
            break
        bias = F.logsigmoid(logit) - log_deviation if activation else -log_deviation  # (K, N)
        distance = _sum_dims(squares * (0.5 / variance).unsqueeze(1), scalar)  # (K, H, N)
        log_c = (bias.unsqueeze(1) - distance).log_softmax(dim=2)  # (K, H, N)

    if scalar:
        return (logit.sigmoid() * mean if activation else mean).unsqueeze(-1)
    return logit.sigmoid().unsqueeze(-1) * mean if activation else mean


def inverse_temperatures(iterations: int) -> list[float]:
    """Return the inverse temperature lambda of each iteration, linear from 1 to 3."""
    first, last = INVERSE_TEMPERATURE
    return [first + (last - first) * i / max(1, iterations - 1) for i in range(iterations)]


def _sum_dims(x: Tensor, scalar: bool) -> Tensor:
    return x if scalar else x.sum(dim=-1)


SOFTMAX_OVER = ("capsules", "heads")


def check_softmax_over(value: str) -> None:
    """Raise ValueError for a value that is not in ``SOFTMAX_OVER``."""
    if value not in SOFTMAX_OVER:
        raise ValueError(f"softmax_over is {value!r}; expected one of {SOFTMAX_OVER}")


def simple_routing(votes: Tensor, iterations: int = 3, *, softmax_over: str = "capsules") -> Tensor:
    """Route votes to capsules by their scalar product with the capsules.

    Choose it as a simpler form of :func:`em_routing`, with which the paper compares it.

    Li et al. 2021, Algorithm 1, Eq. 10 and 11, per token, with V_hn the vote of head h for capsule
    n. B starts at 0; then, ``iterations`` times::

        C_hn  = exp(B_hn) / sum_n' exp(B_hn')
        x_n   = sum_h C_hn V_hn / sum_h C_hn
        Omega_n = ||x_n||^2 / (1 + ||x_n||^2) * x_n / ||x_n||
        B_hn += Omega_n . V_hn

    and the result is the last Omega.

    Args:
        votes: (K, H, N, D): K tokens, H heads, N capsules of D dimensions; any floating-point
            dtype. Votes up to about 1e10 in size are safe.
        iterations: number of times that the capsules are computed, at least 1.
        softmax_over: ``"capsules"``: C sums to one over the capsules of a head, as in the
            paper. ``"heads"``: over the heads of a capsule, as in the authors' released code.

    Returns:
        (K, N, D), the output capsules, float32 (float64 for float64 votes); each shorter than 1.

    Example:
        >>> import torch
        >>> votes = torch.randn(20, 8, 4, 16)  # (tokens, heads, capsules, width of a capsule)
        >>> simple_routing(votes).shape
        torch.Size([20, 4, 16])
    """
    check_votes(votes)
    COUNT.check("iterations", iterations)
    check_softmax_over(softmax_over)
    votes = votes.to(torch.promote_types(votes.dtype, torch.float32))
    scalar = votes.size(-1) == 1
    if scalar:
        votes = votes.squeeze(-1)  # (K, H, N)

    logits = None  # B, (K, H, N)
    capsules = votes  # the first iteration replaces it
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
    """Shorten vectors x (..., D) to the length ||x||^2 / (1 + ||x||^2).

    With ``scalar``, each element of x is a vector. Li et al. 2021, Eq. 11; a zero vector gives 0
    with zero gradient.
    """
    if scalar:
        return x * x.abs() / (1.0 + x.square())
    square = x.square().sum(dim=-1, keepdim=True)
    # The square root has no gradient at 0.
    nonzero = torch.where(square > 0, square, 1.0)
    return x * torch.where(square > 0, nonzero.sqrt() / (1.0 + nonzero), 0.0)
