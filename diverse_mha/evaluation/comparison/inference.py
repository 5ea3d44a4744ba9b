"""Intervals and p-values of differences, by Student's t; Holm's correction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, variance

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """A difference of means, system less baseline.

    Attributes:
        value: The difference.
        interval: Its 95 % interval, or None where nothing is known of its spread.
        p: Two-sided p-value of no difference, or None likewise.
        standard_error: Of the difference, or None.
        degrees: Degrees of freedom of the t distribution that interval and p are of.
        over_seeds: Whether seeds were taken into account; if not, it is about these models only.
    """

    value: float
    interval: tuple[float, float] | None
    p: float | None
    standard_error: float | None
    degrees: float | None
    over_seeds: bool


def by_t(value: float, error: float, degrees: float, *, over_seeds: bool) -> Difference:
    """Give a difference its interval, value ± t error, and its p-value.

    Args:
        value: The difference.
        error: Its standard error.
        degrees: Degrees of freedom; infinity for the normal distribution.
        over_seeds: Whether the error holds the spread over seeds.
    """
    from scipy.stats import t

    if error == 0:
        p = 1.0 if value == 0 else 0.0
    else:
        p = float(2 * t.sf(abs(value) / error, degrees))
    width = float(t.ppf((1 + LEVEL) / 2, degrees)) * error
    return Difference(value, (value - width, value + width), p, error, degrees, over_seeds)


def satterthwaite(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a variance made of estimated parts and others that are known well.

    total^2 / sum of part^2 / degrees (Satterthwaite 1946); infinity where no part counts.

    Args:
        total: The variance.
        parts: Variances that it holds, each with its degrees of freedom.
    """
    spread = sum(part**2 / degrees for part, degrees in parts)
    return total**2 / spread if spread else math.inf


def welch(baseline: Sequence[float], system: Sequence[float]) -> Difference:
    """Compare means over seeds (Welch 1947); without an interval under two seeds on a side."""
    value = mean(system) - mean(baseline)
    if min(len(baseline), len(system)) < 2:
        return Difference(value, None, None, None, None, False)
    parts = [(variance(side) / len(side), len(side) - 1) for side in (baseline, system)]
    total = sum(part for part, _ in parts)
    return by_t(value, math.sqrt(total), satterthwaite(total, parts), over_seeds=True)


def paired_t(differences: Sequence[float]) -> float | None:
    """Two-sided p-value of Student's t on differences seed by seed; None under two."""
    if len(differences) < 2:
        return None
    error = math.sqrt(variance(differences) / len(differences))
    return by_t(mean(differences), error, len(differences) - 1, over_seeds=True).p


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for their number (Holm 1979); None stays None and does not count.

    The k-th smallest of n becomes the largest of (n - j + 1) p_j over j up to k, at most 1.
    """
    order = sorted((p, place) for place, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        corrected[place] = largest
    return corrected
