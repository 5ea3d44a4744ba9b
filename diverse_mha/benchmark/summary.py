"""From the times of steps to the figures that are reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Summary:
    """One variant's figures.

    Attributes:
        median_seconds: median seconds a step.
        lower_quartile: of the seconds.
        upper_quartile: of the seconds.
        ratio: median over rounds of baseline time / own time; above 1 = faster.
        ratio_low: lower end of the ratio's 95 % bootstrap interval.
        ratio_high: its upper end.
    """

    median_seconds: float
    lower_quartile: float
    upper_quartile: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def steps_per_second(self) -> float:
        """Steps per second at the median."""
        return 1 / self.median_seconds


def bootstrap_median(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the median, from ``RESAMPLES`` resamples with replacement."""
    values = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[drawn], axis=1), [2.5, 97.5])
    return float(low), float(high)


def summarise(
    seconds: Mapping[str, Sequence[float]], baseline: str, seed: int = 0
) -> dict[str, Summary]:
    """Summarise interleaved rounds.

    Args:
        seconds: times by variant, all of the same rounds in the same order.
        baseline: the variant that the ratios compare with.
        seed: seed of the bootstrap.

    Raises:
        ValueError: if a variant lacks rounds.
    """
    reference = np.asarray(seconds[baseline], dtype=float)
    summaries = {}
    for name, times in seconds.items():
        times = np.asarray(times, dtype=float)
        if not len(times) or times.shape != reference.shape:
            raise ValueError(f"{name}: {len(times)} rounds, {baseline}: {len(reference)}")
        lower, median, upper = (float(q) for q in np.percentile(times, [25, 50, 75]))
        ratios = reference / times
        low, high = bootstrap_median(ratios, seed)
        summaries[name] = Summary(median, lower, upper, float(np.median(ratios)), low, high)
    return summaries
