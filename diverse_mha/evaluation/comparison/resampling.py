"""Standard errors over sentences, by the bootstrap, and over seeds, together.

A score is method + seed + sentence + method in sentence + seed in sentence. With n seeds the last
term adds I/n to the variance of a method's mean. The bootstrap over sentences contains it, and so
does the seeds' sample variance over n. So only what exceeds I is added of the latter. Interval and
p-value use the t distribution: percentiles of so few seeds are too narrow.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import mean, variance

import numpy as np

from diverse_mha.evaluation.comparison.inference import Difference, by_t, satterthwaite
from diverse_mha.evaluation.comparison.metrics import Metric

CHUNK = 500  # resamples at a time


def draws(sentences: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each sentence is drawn: (up to ``CHUNK``, sentences)."""
    generator = np.random.default_rng(seed)
    shares = np.full(sentences, 1 / sentences)
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        yield generator.multinomial(sentences, shares, size=size).astype(np.float64)


def resampled_scores(
    statistics: np.ndarray, metric: Metric, *, resamples: int, seed: int
) -> np.ndarray:
    """Return scores (resamples, models) on shared resamples; statistics (models, sentences, K)."""
    models, sentences, size = statistics.shape
    side_by_side = statistics.transpose(1, 0, 2).reshape(sentences, models * size)
    scores = [
        metric((counts @ side_by_side).reshape(-1, models, size))
        for counts in draws(sentences, resamples, seed)
    ]
    return np.concatenate(scores)


def difference(
    baseline: Sequence[float], system: Sequence[float], resampled: tuple[np.ndarray, np.ndarray]
) -> Difference:
    """Compare two methods by their seeds' scores on the whole test set.

    The squared standard error is the bootstrap's variance of the difference plus, for each side,
    max(0, s^2 - I) / n: s^2 is the variance of the seeds' scores and I the part of it that is due
    to sentences. The degrees of freedom are those of s^2 / n. With one seed on a side the error is
    the bootstrap's alone.

    Args:
        baseline: a score a seed.
        system: a score a seed.
        resampled: both methods' scores on shared resamples, (resamples, seeds).
    """
    value = mean(system) - mean(baseline)
    total = float((resampled[1].mean(axis=1) - resampled[0].mean(axis=1)).var(ddof=1))
    if min(len(baseline), len(system)) < 2:
        return by_t(value, math.sqrt(total), math.inf, over_seeds=False)
    parts = []
    for scores, drawn in zip((baseline, system), resampled, strict=True):
        spread, count = variance(scores), len(scores)
        total += max(0.0, spread - _of_single_seeds(drawn)) / count
        parts.append((spread / count, count - 1))
    return by_t(value, math.sqrt(total), satterthwaite(total, parts), over_seeds=True)


def _of_single_seeds(scores: np.ndarray) -> float:
    """Return I, estimated from scores (resamples, seeds)."""
    own = scores - scores.mean(axis=1, keepdims=True)
    return float(own.var(axis=0, ddof=1).sum()) / (scores.shape[1] - 1)
