"""Two sources of error in one: other sentences, drawn by the bootstrap, and other seeds.

A score is method + seed + sentence + method in sentence + seed in sentence. With n seeds the last
adds I/n to the variance of a method's mean. The bootstrap over sentences of that mean holds it,
the sample variance of the seeds' scores over n holds it, too, and seeds drawn within drawn
sentences would hold it three times: so of the seeds' variance only what exceeds I is added.
Interval and p-value are of the t distribution, for percentiles of so few seeds are too narrow.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import mean, variance

import numpy as np

from diverse_mha.evaluation.comparison.inference import Difference, by_t, satterthwaite
from diverse_mha.evaluation.comparison.metrics import Metric

CHUNK = 500  # resamples at a time, for the memory


def draws(sentences: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each sentence was drawn: (up to ``CHUNK``, sentences), rows sum to it."""
    generator = np.random.default_rng(seed)
    shares = np.full(sentences, 1 / sentences)
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        yield generator.multinomial(sentences, shares, size=size).astype(np.float64)


def resampled_scores(
    statistics: np.ndarray, metric: Metric, *, resamples: int, seed: int
) -> np.ndarray:
    """Score models (models, sentences, K) on the same resampled test sets: (resamples, models)."""
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
    """Compare two methods by the scores of their seeds on the whole test set.

    Squared standard error: the bootstrap's variance of the difference of their means, and of both
    sides max(0, s^2 - I) / n, where s^2 is the variance of the seeds' scores and I what other
    sentences add to it. The degrees of freedom are those of s^2/n. With one seed on a side nothing
    is known of how seeds differ there, so the error is the bootstrap's alone.

    Args:
        baseline: A score a seed.
        system: The same of the other method.
        resampled: For both, the scores on the same resampled test sets, (resamples, seeds).
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
    """Estimate the variance that seeds in sentences give one score of (resamples, seeds): I."""
    own = scores - scores.mean(axis=1, keepdims=True)
    return float(own.var(axis=0, ddof=1).sum()) / (scores.shape[1] - 1)
