"""Lays out a comparison as a table with notes."""

from collections.abc import Sequence
from dataclasses import asdict

from diverse_mha.common.tables import Layout
from diverse_mha.evaluation.comparison.inference import Difference
from diverse_mha.evaluation.comparison.metrics import RESAMPLED, SCORE
from diverse_mha.evaluation.comparison.systems import RESAMPLES, Measured, System

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
