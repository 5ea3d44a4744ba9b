"""Compares methods with a baseline: means, differences, intervals and corrected p-values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from diverse_mha.common.errors import UserError
from diverse_mha.common.tables import Layout
from diverse_mha.evaluation.comparison.runs import Scored
from diverse_mha.evaluation.comparison.statistics import (
    RESAMPLED,
    SCORE,
    Difference,
    by_rows_and_seeds,
    difference,
    holm,
    resampled_scores,
    welch,
)

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


BOOTSTRAP = (
    "Difference to the first row with its 95 % interval: over seeds, by their variance, and over "
    f"sentences, by {RESAMPLES:,} resamples, the same for all models; interval and p by "
    "Student's t."
)
BY_SEED = (
    "By seed ({measures}): analysis of variance with rows and seeds as factors, the noise being "
    "that of all rows; of two rows it is the paired t-test. No interval with one seed, or where "
    "two rows share only one. Runs of the same seed are compared: where rows have other seeds it "
    "is not the difference of their means."
)
WELCH = (
    "Difference in {measures} to the first row with its 95 % interval and p: Welch's t over "
    "seeds. No interval with one seed."
)
FEWEST = 30  # sentences, below which the bootstrap is not reliable
FEW = "Only {count} sentence(s): intervals and p-values of so few are not reliable."
POWER = (
    "Could find: the true difference that the row's own test, not corrected, finds four times in "
    "five (80 % power)."
)
HOLM = "Holm: p corrected for the number of rows that have one in the column."
ONE_SEED = (
    "† One seed on one side: resampled are sentences only, so this is about these models, and "
    "another seed may differ by more."
)
LOWER = "Perplexity: lower is better."


def lay_out(
    systems: Sequence[System],
    title: str,
    *,
    tested: Sequence[str] | None = None,
    more: Sequence[str] = (),
) -> Layout:
    """Lay out the result of ``compare_systems``.

    Measures that are not in ``tested`` get a mean but no interval (None: all are tested). ``more``
    are further notes.
    """
    measures = list(systems[0].measures)
    tested = measures if tested is None else [name for name in tested if name in measures]
    headings = ["", "seeds"]
    for name in measures:
        kinds = [name, f"{name} by seed"] if _both(name, systems) else [name]
        headings.append(name)
        for kind in kinds if name in tested else ():
            headings += [f"difference in {kind}", f"p of {kind}, Holm"]
            headings += [f"{name}, could find"] if kind == name else []
    lines = []
    for one in systems:
        line = [one.name, str(len(one.runs))]
        for name in measures:
            found, digits = one.measures[name], _digits(name)
            line.append(mean_and_spread(found, digits))
            if name in tested:
                line += [interval(found.difference, digits), p_value(found.holm)]
                least = found.difference and found.difference.detectable
                line += [f"{least:.{digits}f}" if least else ""]
            if name in tested and _both(name, systems):
                line += [interval(found.over_seeds, digits), p_value(found.over_seeds_holm)]
        lines.append(tuple(line))
    said = (*_notes(systems, tested), *([POWER] if tested else []), *more)
    return Layout(title, tuple(headings), tuple(lines), said)


def _digits(name: str) -> int:
    """Return the number of decimals; another program's scores may lie between 0 and 1."""
    return 4 if name == SCORE else 3 if name.endswith("nll") else 2


def _both(name: str, systems: Sequence[System]) -> bool:
    """Return True if a measure has an interval by seed beside the bootstrap's."""
    others = (one.measures[name].over_seeds for one in systems)
    return any(found is not None and found.interval is not None for found in others)


def _notes(systems: Sequence[System], measures: Sequence[str]) -> tuple[str, ...]:
    """Return notes on how the differences were computed."""
    first = {name: [one.measures[name].difference for one in systems[1:]] for name in measures}
    resampled = RESAMPLED.keys() & first.keys()
    by_seed = [name for name in measures if _both(name, systems) or first[name][0].by_seed]
    others = [name for name in measures if name not in resampled]
    welch = [name for name in others if not any(one.by_seed for one in first[name])]
    said = [BOOTSTRAP] if resampled else []
    for text, names in ((BY_SEED, by_seed), (WELCH, welch)):
        said += [text.format(measures=", ".join(names))] if names else []
    said += [HOLM] if any(found.p is not None for one in first.values() for found in one) else []
    said += [ONE_SEED] if not all(f.over_seeds for name in resampled for f in first[name]) else []
    said += [LOWER] if "perplexity" in measures else []
    counts = [len(x) for one in systems for run in one.runs for x in run.statistics.values()]
    said += [FEW.format(count=counts[0])] if counts and counts[0] < FEWEST else []
    return tuple(said)


def mean_and_spread(found: Measured, digits: int = 2) -> str:
    """Write mean and standard deviation."""
    spread = f" ± {found.spread:.{digits}f}" if found.spread is not None else ""
    return f"{found.mean:.{digits}f}{spread}"


def interval(found: Difference | None, digits: int = 2) -> str:
    """Write a difference with its interval, signs always shown."""
    if found is None:
        return ""
    if found.interval is None:
        return f"{found.value:+.{digits}f}"
    low, high = found.interval
    mark = "" if found.over_seeds else "†"
    return f"{found.value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]{mark}"


def p_value(p: float | None) -> str:
    """Write a p-value with three decimals."""
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def to_json(systems: Sequence[System]) -> list[dict]:
    """Return all numbers for a JSON file."""
    return [
        {
            "name": one.name,
            "runs": [{"path": run.path, "seed": run.seed, **run.scores} for run in one.runs],
            "measures": {
                name: {"mean": found.mean, "sd": found.spread, **asdict(found)}
                for name, found in one.measures.items()
            },
        }
        for one in systems
    ]
