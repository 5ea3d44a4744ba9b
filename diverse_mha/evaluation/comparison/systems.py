"""Comparison of systems with a baseline: means, differences, intervals, p-values, table."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from diverse_mha.common.errors import UserError
from diverse_mha.common.progress import counted
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
SACREBLEU = "BLEU and chrF: sacreBLEU's, of detokenised text; tokenised BLEU is another score."
#: A difference is not tested if both mean scores are below these values: too few words match.
LOWEST = {"BLEU": 1.0, "chrF": 10.0}


@dataclass(frozen=True)
class Measured:
    """Results of one measure for one system."""

    values: tuple[float, ...]  # one for each run
    difference: Difference | None = None  # from the baseline; None for the baseline
    holm: float | None = None  # p-value after Holm's correction
    over_seeds: Difference | None = None  # difference by seed, without bootstrap over sentences
    over_seeds_holm: float | None = None  # p-value of ``over_seeds`` after Holm's correction

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return mean(self.values)

    @property
    def spread(self) -> float | None:
        """Sample standard deviation over the runs; None for a single run."""
        return stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class System:
    """A system: name, one run for each seed, and ``measures`` after the comparison."""

    name: str
    runs: tuple[Scored, ...]
    measures: dict[str, Measured] = field(default_factory=dict)

    @property
    def distinct(self) -> tuple[Scored, ...]:
        """The runs to test. Runs that all have equal results are one seed: the first alone."""
        evidence = {run.evidence for run in self.runs}
        return self.runs[:1] if len(evidence) == 1 and None not in evidence else self.runs


def compare_systems(
    systems: Sequence[System],
    *,
    steps: Mapping[str, float] | None = None,
    own: Collection[str] = (),
) -> list[System]:
    """Compare systems with the first one; return them with their measures.

    Measures with sentence statistics are compared by a bootstrap over sentences, with the same
    resamples for all systems, combined with the variance over seeds. All measures are compared seed
    by seed, too (:func:`by_rows_and_seeds`), if the seeds are known and shared. Otherwise, measures
    without sentence statistics are compared by Welch's t. Holm's correction is over the systems,
    for each measure. If both means are below ``LOWEST``, there is no interval and no p-value.

    Args:
        systems: the systems, the baseline first.
        steps: measure -> rounding step of its scores.
        own: measures also tested by Welch's t, with each system's own variance.
    """
    _check_alike(systems)
    measures: list[dict[str, Measured]] = [{} for _ in systems]
    for name in systems[0].runs[0].scores:
        values = [tuple(run.scores[name] for run in system.runs) for system in systems]
        tested = [tuple(run.scores[name] for run in system.distinct) for system in systems]
        step = (steps or {}).get(name, 0.0)
        seeds = _over_seeds(name, systems, step)
        if name in RESAMPLED:
            differences = _resampled(name, systems, tested)
        elif seeds is None or name in own:
            differences = [welch(tested[0], others, step) for others in tested[1:]]
        else:
            differences, seeds = seeds, None
        low = [_too_low(name, values[0], others) for others in values[1:]]
        differences, seeds = _untested(differences, low), seeds and _untested(seeds, low)
        measures[0][name] = Measured(values[0])
        more = seeds or [None] * len(differences)
        corrected = [holm([test and test.p for test in side]) for side in (differences, more)]
        tests = zip(differences, corrected[0], more, corrected[1], strict=True)
        for index, test in enumerate(tests, start=1):
            measures[index][name] = Measured(values[index], *test)
    pairs = zip(systems, measures, strict=True)
    return [replace(system, measures=measured) for system, measured in pairs]


def _too_low(name: str, *sides: Sequence[float]) -> bool:
    return all(mean(side) < LOWEST.get(name, -np.inf) for side in sides)


def _untested(tests: Sequence[Difference], low: Sequence[bool]) -> list[Difference]:
    """Return differences without interval and p-value where both scores are too low."""
    nothing = {"interval": None, "p": None, "standard_error": None, "degrees": None}
    return [
        replace(test, **nothing) if untested else test
        for test, untested in zip(tests, low, strict=True)
    ]


def _check_alike(systems: Sequence[System]) -> None:
    """Raise an error if the runs are not comparable."""
    seen, others = {}, []
    first = systems[0].runs[0]
    for system in systems:
        for run in system.runs:
            path = str(Path(run.path).resolve())
            if path in seen:
                where = f"twice in {system.name}"
                if seen[path] != system.name:
                    where = f"in {seen[path]} and in {system.name}"
                raise UserError(f"{run.path}: is {where}; name it once")
            seen[path] = system.name
            copies = [x for x in others if x.content == run.content and "checkpoint" in x.content]
            if copies:
                raise UserError(f"{run.path}: is a copy of {copies[0].path}; name the run once")
            others.append(run)
            if run.scores.keys() != first.scores.keys():
                ours, theirs = ("/".join(value.scores) for value in (run, first))
                raise UserError(
                    f"{run.path}: has {ours}, but {first.path} has {theirs}; compare runs with "
                    "the same scores"
                )
            for name, value, other in differing(run.test, first.test):
                if name in _LONG:
                    difference = f"has another {name} than {first.path}"
                else:
                    difference = f"differs from {first.path} in {name} ({value}, not {other})"
                raise UserError(f"{run.path}: {difference}; compare results on one test set")


#: Settings of a test set whose values are too long for a message.
_LONG = ("source text", "reference", "dictionary")


def differing(first: Mapping, other: Mapping) -> Iterator[tuple[str, object, object]]:
    """Yield (name, value in ``first``, value in ``other``) of the settings that differ.

    The value None means that a setting was not recorded; such settings are skipped.
    """
    for name in first:
        pair = first[name], other.get(name)
        if None not in pair and pair[0] != pair[1]:
            yield name, *pair


def check_search(systems: Sequence[System], *, allowed: bool = False) -> tuple[str, ...]:
    """Raise an error if a run was decoded with other search options than the first run.

    If ``allowed``, return the differences as notes instead.
    """
    first, notes = systems[0].runs[0], []
    for run in (run for system in systems for run in system.runs):
        for name, value, other in differing(run.search, first.search):
            text = f"{run.path}: differs from {first.path} in {name} ({value}, not {other})"
            if not allowed:
                raise UserError(f"{text}; evaluate with one search, or add --despite-search")
            notes.append(f"Search options differ: {text}.")
    return tuple(notes)


def _over_seeds(name: str, systems: Sequence[System], step: float) -> list[Difference] | None:
    """Return the differences from the baseline, compared seed by seed.

    Return None if a seed is unknown or repeated, if all runs of a system are equal, or if no chain
    of shared seeds links a system to the baseline.
    """
    rows = [
        {run.seed: run.scores[name] for run in system.runs if run.seed is not None}
        for system in systems
    ]
    if any(
        len(row) < len(system.runs) or len(system.distinct) < len(system.runs)
        for row, system in zip(rows, systems, strict=True)
    ):
        return None
    differences = by_rows_and_seeds(rows, step)
    known = [one for one in differences if one is not None]
    return known if len(known) == len(differences) else None


def _resampled(
    name: str, systems: Sequence[System], values: Sequence[Sequence[float]]
) -> list[Difference]:
    models = np.stack([run.statistics[name] for system in systems for run in system.distinct])
    scores = resampled_scores(models, RESAMPLED[name], resamples=RESAMPLES, seed=SEED)
    ends = np.cumsum([len(system.distinct) for system in systems])
    by_system = np.split(scores, ends[:-1], axis=1)
    return [
        difference(values[0], values[index], (by_system[0], by_system[index]))
        for index in range(1, len(systems))
    ]


BOOTSTRAP = (
    "Difference: to the first row, with a 95 % interval. It covers the variance over seeds, and "
    f"over sentences, by {RESAMPLES:,} resamples, the same for all models. Interval and p are "
    "Student's t."
)
BY_SEED = (
    "By seed ({measures}): analysis of variance with rows and seeds as factors, and one noise "
    "variance for all rows; with two rows it is the paired t-test. No interval with one seed, or "
    "if there are only two rows and they share one seed. Only runs of the same seed are compared, "
    "so if the seeds of two rows differ, the result is not the difference of their means."
)
WELCH = (
    "Difference in {measures} to the first row with its 95 % interval and p: Welch's t over "
    "seeds. No interval with one seed."
)
FEWEST = 30  # sentences; the bootstrap is unreliable below
FEW = "Only {count}: intervals and p-values are not reliable for so few."
POWER = (
    "Could find: a true difference of this size is found by the row's test (without correction) "
    "four times in five (80 % power)."
)
HOLM = "Holm: p, corrected for the number of p-values in the column."
ONE_SEED = (
    "† One side has one seed, or equal results for all seeds, so only sentences are resampled. The "
    "interval holds for these models; other seeds may differ by more."
)
EQUAL = (
    "Equal results: {runs}. Trainings with different seeds hardly ever score alike in every "
    "sentence. If one of these runs is a copy of another, leave it out: it is no further evidence, "
    "and makes the interval too short and p too small."
)
TOO_LOW = (
    "Too low to compare on both sides: {measures}. Hardly a word agrees with the reference. Train "
    "longer, or check that the files are in the language of the reference."
)
LOWER = "Perplexity: lower is better."


def lay_out(
    systems: Sequence[System],
    title: str,
    *,
    tested: Sequence[str] | None = None,
    more: Sequence[str] = (),
) -> Layout:
    """Return the table for the systems that :func:`compare_systems` returns.

    Measures that are not in ``tested`` get a mean but no interval (None: all are tested). ``more``
    holds further notes for the end of the table.
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
    for system in systems:
        line = [system.name, str(len(system.runs))]
        for name in measures:
            measured, digits = system.measures[name], _digits(name)
            line.append(mean_and_spread(measured, digits))
            if name in tested:
                line += [interval(measured.difference, digits), p_value(measured.holm)]
                least = measured.difference and measured.difference.detectable
                line += [f"{least:.{digits}f}" if least else ""]
            if name in tested and _both(name, systems):
                line += [interval(measured.over_seeds, digits), p_value(measured.over_seeds_holm)]
        lines.append(tuple(line))
    powers = [test for name in tested for test in _differences(name, systems)]
    power = [POWER] if any(test.detectable for test in powers) else []
    notes = (*_notes(systems, tested), *power, *more)
    return Layout(title, tuple(headings), tuple(lines), notes)


def _digits(name: str) -> int:
    """Return the number of decimals; scores of other programs may lie between 0 and 1."""
    return 4 if name == SCORE else 3 if name.endswith("nll") else 2


def _differences(name: str, systems: Sequence[System]) -> list[Difference]:
    """Return a measure's differences from the first system."""
    tests = (system.measures[name].difference for system in systems[1:])
    return [test for test in tests if test is not None]


def _both(name: str, systems: Sequence[System]) -> bool:
    """Return True if a measure has an interval by seed in addition to that of ``difference``."""
    others = (system.measures[name].over_seeds for system in systems)
    return any(test is not None and test.interval is not None for test in others)


def _notes(systems: Sequence[System], measures: Sequence[str]) -> tuple[str, ...]:
    """Return notes on how the differences were computed."""
    first = {name: _differences(name, systems) for name in measures}
    resampled = [n for n in first if n in RESAMPLED and any(test.interval for test in first[n])]
    by_seed = [name for name in measures if _both(name, systems) or first[name][0].by_seed]
    others = [name for name in measures if name not in RESAMPLED]
    welch = [name for name in others if not any(test.by_seed for test in first[name])]
    notes = [*_equal_runs(systems), *([BOOTSTRAP] if resampled else [])]
    for text, names in ((BY_SEED, by_seed), (WELCH, welch)):
        notes += [text.format(measures=", ".join(names))] if names else []
    notes += [HOLM] if any(test.p is not None for tests in first.values() for test in tests) else []
    tested = [test for name in resampled for test in first[name] if test.interval]
    notes += [ONE_SEED] if not all(test.over_seeds for test in tested) else []
    sides = {name: [system.measures[name].values for system in systems] for name in measures}
    low = [n for n, (base, *rest) in sides.items() if any(_too_low(n, base, x) for x in rest)]
    low = [f"{name} (below {LOWEST[name]:g})" for name in low]
    notes += [TOO_LOW.format(measures=", ".join(low))] if low else []
    notes += [LOWER] if "perplexity" in measures else []
    notes += [SACREBLEU] if "BLEU" in measures else []
    counts = [len(x) for system in systems for run in system.runs for x in run.statistics.values()]
    notes += (
        [FEW.format(count=counted(counts[0], "sentence"))] if counts and counts[0] < FEWEST else []
    )
    return tuple(notes)


def _equal_runs(systems: Sequence[System]) -> Iterator[str]:
    """Yield a note on each group of runs that have the same evidence."""
    groups: dict[Hashable, list[str]] = {}
    for run in (run for system in systems for run in system.runs):
        groups.setdefault(run.evidence, []).append(run.path)
    for evidence, paths in groups.items():
        if evidence is not None and len(paths) > 1:
            yield EQUAL.format(runs=", ".join(paths))


def mean_and_spread(measured: Measured, digits: int = 2) -> str:
    """Return mean and standard deviation as text."""
    spread = f" ± {measured.spread:.{digits}f}" if measured.spread is not None else ""
    return f"{measured.mean:.{digits}f}{spread}"


def interval(difference: Difference | None, digits: int = 2) -> str:
    """Return a difference with its interval as text; all numbers have signs."""
    if difference is None:
        return ""
    if difference.interval is None:
        return f"{difference.value:+.{digits}f}"
    low, high = difference.interval
    mark = "" if difference.over_seeds else "†"
    return f"{difference.value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]{mark}"


def p_value(p: float | None) -> str:
    """Return a p-value as text with three decimals."""
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def to_json(systems: Sequence[System]) -> list[dict]:
    """Return the systems' runs and measures for a JSON file."""
    return [
        {
            "name": system.name,
            "runs": [{"path": run.path, "seed": run.seed, **run.scores} for run in system.runs],
            "measures": {
                name: {"mean": measured.mean, "sd": measured.spread, **asdict(measured)}
                for name, measured in system.measures.items()
            },
        }
        for system in systems
    ]
