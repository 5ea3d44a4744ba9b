"""Slow reference implementations of Algorithms 1 and 2 of Li et al. 2021.

They multiply probabilities without logarithms. Use them in float64 with tiny shapes and small
votes. Shapes: K tokens, H heads, N capsules, D dimensions.
"""

import math

import torch
from torch import Tensor


def squash(x: Tensor) -> Tensor:
    """Return the squashed vector (Eq. 11)."""
    square = torch.dot(x, x)
    if square == 0:
        return 0.0 * x
    return square / (1.0 + square) * (x / torch.sqrt(square))


def simple_routing(votes: Tensor, iterations: int, softmax_over: str = "capsules") -> Tensor:
    """Algorithm 1. ``votes`` (K, H, N, D); returns (K, N, D)."""
    tokens, num_heads, capsules, _ = votes.shape
    result = []
    for k in range(tokens):
        v = votes[k]
        b = [[votes.new_zeros(()) for _ in range(capsules)] for _ in range(num_heads)]
        for _ in range(iterations):
            c = [[None] * capsules for _ in range(num_heads)]
            for h in range(num_heads):
                for n in range(capsules):
                    if softmax_over == "capsules":
                        among = [torch.exp(b[h][m]) for m in range(capsules)]
                    else:
                        among = [torch.exp(b[g][n]) for g in range(num_heads)]
                    c[h][n] = torch.exp(b[h][n]) / sum(among)
            omega = []
            for n in range(capsules):
                total = sum(c[h][n] * v[h, n] for h in range(num_heads))
                omega.append(squash(total / sum(c[h][n] for h in range(num_heads))))
            for h in range(num_heads):
                for n in range(capsules):
                    b[h][n] = b[h][n] + torch.dot(omega[n], v[h, n])
        result.append(torch.stack(omega))
    return torch.stack(result)


def density(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Return the density of a Gaussian with diagonal covariance: a product over dimensions."""
    exponent = -((x - mean) ** 2) / (2.0 * variance)
    return torch.prod(torch.exp(exponent) / torch.sqrt(2.0 * math.pi * variance))


def em_routing(
    votes: Tensor,
    iterations: int,
    activation: bool = True,
    activation_cost: float = 0.0,
    input_cost: float = 0.0,
    variance_floor: float = 1e-6,
) -> Tensor:
    """Algorithm 2. ``votes`` (K, H, N, D); returns (K, N, D)."""
    result = []
    for v in votes:
        mean, active = fit(v, iterations, activation, activation_cost, input_cost, variance_floor)
        result.append(torch.stack([a * m for a, m in zip(active, mean, strict=True)]))
    return torch.stack(result)


def fit(
    v: Tensor,
    iterations: int,
    activation: bool,
    activation_cost: float,
    input_cost: float,
    variance_floor: float,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the capsules' means and activations after the last M-step.

    ``v`` are the votes of one token (H, N, D).
    """
    num_heads, capsules, dims = v.shape
    c = [[v.new_tensor(1.0 / capsules) for _ in range(capsules)] for _ in range(num_heads)]
    for step in range(iterations):
        temperature = 1.0 if iterations == 1 else 1.0 + 2.0 * step / (iterations - 1)
        mean, variance, active = [], [], []
        for n in range(capsules):
            mass = sum(c[h][n] for h in range(num_heads))
            mu = sum(c[h][n] * v[h, n] for h in range(num_heads)) / mass
            var = sum(c[h][n] * (v[h, n] - mu) ** 2 for h in range(num_heads)) / mass
            var = torch.where(var < variance_floor, torch.full_like(var, variance_floor), var)
            chi = v.new_zeros(())
            for i in range(dims):
                sigma = torch.sqrt(var[i])
                chi = chi + (torch.log(sigma) + (1.0 + math.log(2.0 * math.pi)) / 2.0) * mass
            logit = temperature * (activation_cost - input_cost * mass - chi)
            mean.append(mu)
            variance.append(var)
            active.append(1.0 / (1.0 + torch.exp(-logit)) if activation else v.new_ones(()))
        for h in range(num_heads):
            p = [active[n] * density(v[h, n], mean[n], variance[n]) for n in range(capsules)]
            c[h] = [p[n] / sum(p) for n in range(capsules)]
    return mean, active
