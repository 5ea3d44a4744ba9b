"""Methods beside a baseline: every measure's mean, difference, interval and corrected p-value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import numpy as np

from diverse_mha.evaluation.comparison.inference import Difference, holm, paired_t, welch
from diverse_mha.evaluation.comparison.metrics import METRICS
from diverse_mha.evaluation.comparison.resampling import difference, resampled_scores
from diverse_mha.evaluation.comparison.runs import Scored

RESAMPLES = 10_000
SEED = 12345


@dataclass(frozen=True)
class Measured:
    """One measure of one method.

    Attributes:
        values: By run, in their order.
        difference: To the baseline; None for the baseline itself.
        holm: The p-value of ``difference``, corrected for the number of methods.
        paired: p-value of Student's t over the seeds that both have, or None.
        pairs: How many seeds these are.
    """

    values: tuple[float, ...]
    difference: Difference | None = None
    holm: float | None = None
    paired: float | None = None
    pairs: int = 0

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the runs (n-1); None under two."""
        return stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class System:
    """A method: its name and its runs, one a seed; ``measures`` once it has been compared."""

    name: str
    runs: tuple[Scored, ...]
    measures: dict[str, Measured] | None = None


def compare_systems(
    baseline: System, systems: Sequence[System], *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[System]:
    """Compare methods with a baseline.

    Translations by the two-level bootstrap, all methods on the same resampled sentences; other
    scores by Welch's t over seeds. Holm's correction is over the methods, measure by measure.

    Args:
        baseline: The method to compare with.
        systems: The others.
        resamples: Of the bootstrap.
        seed: Of its drawing.

    Returns:
        The baseline and the others with their measures.
    """
    everyone = [baseline, *systems]
    measures: list[dict[str, Measured]] = [{} for _ in everyone]
    for name in baseline.runs[0].scores:
        values = [tuple(run.scores[name] for run in one.runs) for one in everyone]
        differences = _differences(name, everyone, values, resamples, seed)
        corrected = holm([found.p for found in differences])
        measures[0][name] = Measured(values[0])
        for place, found in enumerate(differences, start=1):
            pairs = _pairs(name, baseline, everyone[place])
            measures[place][name] = Measured(
                values[place], found, corrected[place - 1], paired_t(pairs), len(pairs)
            )
    return [replace(one, measures=found) for one, found in zip(everyone, measures, strict=True)]


def _differences(
    name: str,
    everyone: Sequence[System],
    values: Sequence[Sequence[float]],
    resamples: int,
    seed: int,
) -> list[Difference]:
    metric = next((metric for metric in METRICS if metric.name == name), None)
    if metric is None:
        return [welch(values[0], others) for others in values[1:]]
    models = [run.statistics[name] for one in everyone for run in one.runs]
    scores = resampled_scores(np.stack(models), metric, resamples=resamples, seed=seed)
    ends = np.cumsum([len(one.runs) for one in everyone])
    own = np.split(scores, ends[:-1], axis=1)
    return [
        # The baseline's seeds are drawn alike for every method, the methods' each for itself.
        difference(values[0], values[place], (own[0], own[place]), (seed + 1, seed + 1 + place))
        for place in range(1, len(everyone))
    ]


def _pairs(name: str, baseline: System, system: System) -> list[float]:
    """Differences seed by seed; empty unless every run's seed is known and there once."""
    by_seed = []
    for one in (baseline, system):
        seeds = {run.seed: run.scores[name] for run in one.runs}
        if None in seeds or len(seeds) < len(one.runs):
            return []
        by_seed.append(seeds)
    return [by_seed[1][seed] - by_seed[0][seed] for seed in by_seed[0] if seed in by_seed[1]]
