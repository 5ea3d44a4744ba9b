"""The two-level bootstrap: sentences, the same for every model, and the seeds of each method.

A difference of two methods varies for two reasons: another test set, and other seeds. So both are
resampled. Of n seeds n - 1 are drawn, with replacement: the variance of their mean is then the
unbiased s^2/n (McCarthy and Snowden 1985), where n draws would give (n - 1)/n of it, two thirds
with three seeds. The standard deviation over the resamples is the standard error, and interval
and p-value are of the t distribution, for percentiles of so few seeds are too narrow.
"""

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


def means_over_seeds(scores: np.ndarray, seed: int) -> np.ndarray:
    """Resample the seeds of one method, anew for each resample of the sentences.

    Of (resamples, seeds), at least two seeds, (resamples,): the mean of one seed less than there
    are, drawn with replacement.
    """
    resamples, seeds = scores.shape
    generator = np.random.default_rng(seed)
    drawn = generator.integers(seeds, size=(resamples, seeds - 1))
    return np.take_along_axis(scores, drawn, axis=1).mean(axis=1)


def difference(
    baseline: Sequence[float],
    system: Sequence[float],
    resampled: tuple[np.ndarray, np.ndarray],
    seeds: tuple[int, int],
) -> Difference:
    """Compare two methods by the scores of their seeds on the whole test set.

    With one seed on a side nothing is known of how seeds differ there, so only sentences are
    resampled.

    Args:
        baseline: A score a seed.
        system: The same of the other method.
        resampled: For both, the scores on the same resampled test sets, (resamples, seeds).
        seeds: For both, of the drawing of their seeds.
    """
    value = mean(system) - mean(baseline)
    if min(len(baseline), len(system)) < 2:
        errors = resampled[1].mean(axis=1) - resampled[0].mean(axis=1)
        return by_t(value, float(errors.std(ddof=1)), float("inf"), over_seeds=False)
    drawn = [means_over_seeds(*one) for one in zip(resampled, seeds, strict=True)]
    error = float((drawn[1] - drawn[0]).std(ddof=1))
    parts = [(variance(side) / len(side), len(side) - 1) for side in (baseline, system)]
    return by_t(value, error, satterthwaite(error**2, parts), over_seeds=True)
