"""Slow reference implementations of the measures in numpy, with full float64 matrices."""

import math

import numpy as np


def cka(x, y):
    """Return tr(K C L C) / sqrt(tr(K C K C) tr(L C L C)).

    The rows of x and y are N positions. K and L are their N x N linear kernels, and C is the
    centring matrix.
    """
    n = len(x)
    centre = np.eye(n) - np.ones((n, n)) / n
    k, m = x @ x.T, y @ y.T

    def hsic(a, b):
        return np.trace(a @ centre @ b @ centre) / (n - 1) ** 2

    return hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m))


def svcca(x, y, threshold=0.99):
    """Return the canonical correlations of the leading singular directions of x and y.

    ``threshold``: share of the variance that the leading directions explain.
    """

    def directions(a):
        a = a - a.mean(axis=0)
        u, s, _ = np.linalg.svd(a, full_matrices=False)
        share = np.cumsum(s**2) / np.sum(s**2)
        kept = next(i for i, value in enumerate(share, 1) if value >= threshold - 1e-13)
        return u[:, :kept] * s[:kept]

    qx, _ = np.linalg.qr(directions(x))
    qy, _ = np.linalg.qr(directions(y))
    return np.linalg.svd(qx.T @ qy, compute_uv=False)


def jensen_shannon(p, q):
    """Return the mean Kullback-Leibler divergence of two rows from their mean, in nats."""

    def kl(a, b):
        return sum(u * math.log(u / v) for u, v in zip(a, b, strict=True) if u > 0)

    mixed = [(u + v) / 2 for u, v in zip(p, q, strict=True)]
    return (kl(p, mixed) + kl(q, mixed)) / 2


def sharpness(weights, real_queries, real_keys):
    """Return a head's mean entropy (nats) and its share of rows with a weight above 0.95."""
    entropies, sharp = [], 0
    for sentence, queries, keys in zip(weights, real_queries, real_keys, strict=True):
        for row in (sentence[t] for t in range(len(sentence)) if queries[t]):
            kept = [row[s] for s in range(len(row)) if keys[s]]
            entropies.append(sum(-p * math.log(p) for p in kept if p > 0))
            sharp += max(kept) > 0.95
    return sum(entropies) / len(entropies), sharp / len(entropies)
