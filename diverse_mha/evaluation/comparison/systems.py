"""Compares methods with a baseline: means, differences, intervals and corrected p-values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.comparison.inference import (
    Difference,
    by_rows_and_seeds,
    difference,
    holm,
    resampled_scores,
    welch,
)
from diverse_mha.evaluation.comparison.metrics import RESAMPLED
from diverse_mha.evaluation.comparison.runs import Scored

RESAMPLES = 10_000  # draws of the bootstrap
SEED = 12345


@dataclass(frozen=True)
class Measured:
    """One measure of one method."""

    values: tuple[float, ...]  # a value a run
    difference: Difference | None = None  # from the baseline; None for the baseline itself
    holm: float | None = None  # its p-value after Holm's correction
    over_seeds: Difference | None = None  # by seed, without resampled sentences
    over_seeds_holm: float | None = None

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
    systems: Sequence[System],
    *,
    steps: Mapping[str, float] | None = None,
    own: Collection[str] = (),
) -> list[System]:
    """Compare methods with the first of them and return them with their measures.

    Measures with sentence statistics are compared over shared resamples and seeds. All measures
    are compared seed by seed, with the noise of all methods, or by Welch's t where seeds are
    unknown or not shared. Holm's correction is over the methods, for each measure.

    Args:
        systems: the methods, the baseline first.
        steps: by measure, scores were rounded to multiples of this.
        own: measures with Welch's t, by each method's own noise, beside the comparison by seed.
    """
    _check_alike(systems)
    measures: list[dict[str, Measured]] = [{} for _ in systems]
    for name in systems[0].runs[0].scores:
        values = [tuple(run.scores[name] for run in one.runs) for one in systems]
        step = (steps or {}).get(name, 0.0)
        seeds = _over_seeds(name, systems, step)
        if name in RESAMPLED:
            differences = _resampled(name, systems, values)
        elif seeds is None or name in own:
            differences = [welch(values[0], others, step) for others in values[1:]]
        else:
            differences, seeds = seeds, None
        measures[0][name] = Measured(values[0])
        more = seeds or [None] * len(differences)
        corrected = [holm([found and found.p for found in side]) for side in (differences, more)]
        tests = zip(differences, corrected[0], more, corrected[1], strict=True)
        for place, found in enumerate(tests, start=1):
            measures[place][name] = Measured(values[place], *found)
    return [replace(one, measures=found) for one, found in zip(systems, measures, strict=True)]


def _check_alike(systems: Sequence[System]) -> None:
    """Raise an error if runs cannot be compared."""
    seen, others = {}, []
    first = systems[0].runs[0]
    for system in systems:
        for run in system.runs:
            place = str(Path(run.path).resolve())
            if place in seen:
                there = f"twice in {system.name}"
                if seen[place] != system.name:
                    there = f"in {seen[place]} and in {system.name}"
                raise UserError(f"{run.path}: is {there}; name it once")
            seen[place] = system.name
            copies = [x for x in others if x.content == run.content and "checkpoint" in x.content]
            if copies:
                raise UserError(f"{run.path}: is a copy of {copies[0].path}; name the run once")
            others.append(run)
            if run.scores.keys() != first.scores.keys():
                ours, theirs = ("/".join(one.scores) for one in (run, first))
                raise UserError(f"{run.path}: has {ours}, but {first.path} has {theirs}")
            for name, one, other in differing(run.test, first.test):
                if name in _LONG:
                    difference = f"another {name} than {first.path}"
                else:
                    difference = f"{name} {one}, but {first.path} has {other}"
                raise UserError(f"{run.path}: has {difference}; name results of one test set")


#: What identifies a test set but is too long for a message.
_LONG = ("source text", "reference", "dictionary")


def differing(one: Mapping, other: Mapping) -> Iterator[tuple[str, object, object]]:
    """Yield name and both values of settings that differ; None is a value that is not recorded."""
    for name in one:
        pair = one[name], other.get(name)
        if None not in pair and pair[0] != pair[1]:
            yield name, *pair


def check_search(systems: Sequence[System], *, allowed: bool = False) -> tuple[str, ...]:
    """Raise an error if runs were decoded otherwise than the first, or return notes that say so.

    ``allowed`` is True if the difference is meant.
    """
    first, notes = systems[0].runs[0], []
    for run in (run for system in systems for run in system.runs):
        for name, one, other in differing(run.search, first.search):
            said = f"{run.path}: has {name} {one}, but {first.path} has {other}"
            if not allowed:
                raise UserError(f"{said}; evaluate with one search, or add --despite-search")
            notes.append(f"Another search: {said}.")
    return tuple(notes)


def _over_seeds(name: str, systems: Sequence[System], step: float) -> list[Difference] | None:
    """Compare seed by seed; None unless every seed is known and links to the baseline."""
    rows = [{run.seed: run.scores[name] for run in one.runs} for one in systems]
    if any(None in row or len(row) < len(one.runs) for row, one in zip(rows, systems, strict=True)):
        return None
    found = by_rows_and_seeds(rows, step)
    return None if None in found else found


def _resampled(
    name: str, systems: Sequence[System], values: Sequence[Sequence[float]]
) -> list[Difference]:
    models = np.stack([run.statistics[name] for one in systems for run in one.runs])
    scores = resampled_scores(models, RESAMPLED[name], resamples=RESAMPLES, seed=SEED)
    ends = np.cumsum([len(one.runs) for one in systems])
    own = np.split(scores, ends[:-1], axis=1)
    return [
        difference(values[0], values[place], (own[0], own[place]))
        for place in range(1, len(systems))
    ]
