"""A comparison laid out: numbers, intervals, and what a reader must know of them."""

from collections.abc import Sequence
from dataclasses import asdict

from diverse_mha.common.tables import Layout
from diverse_mha.evaluation.comparison.inference import Difference
from diverse_mha.evaluation.comparison.metrics import METRICS
from diverse_mha.evaluation.comparison.systems import Measured, System

BOOTSTRAP = (
    "Difference to the first row with its 95 % interval: two-level bootstrap, {resamples:,} "
    "resamples of the sentences, the same for all models, and of the seeds; interval and p by "
    "Student's t with the bootstrap's standard error."
)
OVER_SEEDS = (
    "Difference to the first row with its 95 % interval and p: Welch's t over seeds. No interval "
    "where one of the two has one seed."
)
HOLM = "Holm: p corrected for the number of rows ({rows}), {measure}."
ONE_SEED = (
    "† One seed on one side: resampled are sentences only, so this is about these models, and "
    "another seed may differ by more."
)
PAIRED = "t: p of the paired t-test over the seeds that both rows have."
LOWER = "Perplexity: lower is better."


def lay_out(systems: Sequence[System], title: str, *, resamples: int) -> Layout:
    """Lay out what ``compare_systems`` found.

    Args:
        systems: The baseline, then the others.
        title: Of the table.
        resamples: Of the bootstrap, for the notes.
    """
    measures = list(systems[0].measures)
    paired = any(m.paired is not None for one in systems for m in one.measures.values())
    headings = ["", "seeds"]
    for name in measures:
        headings += [name, f"difference in {name}", f"p of {name}, Holm"]
        headings += [f"p of {name}, paired t"] if paired else []
    lines = []
    for one in systems:
        line = [one.name, str(len(one.runs))]
        for name in measures:
            found = one.measures[name]
            line += [mean_and_spread(found), interval(found.difference), p_value(found.holm)]
            line += [p_value(found.paired)] if paired else []
        lines.append(tuple(line))
    return Layout(title, tuple(headings), tuple(lines), notes(systems, resamples, paired=paired))


def notes(
    systems: Sequence[System], resamples: int, *, paired: bool = False, tested: str | None = None
) -> tuple[str, ...]:
    """Say how the differences were found, of all measures or of the one that is ``tested``."""
    measures = [tested] if tested else list(systems[0].measures)
    translations = measures[0] in {metric.name for metric in METRICS}
    said = [BOOTSTRAP.format(resamples=resamples) if translations else OVER_SEEDS]
    count = sum(one.measures[measures[0]].holm is not None for one in systems)
    each = "each measure by itself" if len(measures) > 1 else measures[0]
    said += [HOLM.format(rows=count, measure=each)] if count else []
    said += [PAIRED] if paired else []
    differences = [one.measures[measures[0]].difference for one in systems[1:]]
    said += [ONE_SEED] if translations and not all(d.over_seeds for d in differences) else []
    said += [LOWER] if "perplexity" in measures else []
    return tuple(said)


def mean_and_spread(found: Measured) -> str:
    """Write mean and standard deviation."""
    spread = f" ± {found.spread:.2f}" if found.spread is not None else ""
    return f"{found.mean:.2f}{spread}"


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
    """Write a p-value with three digits behind the point."""
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
                name: {"mean": found.mean, "sd": found.spread, **_plain(found)}
                for name, found in one.measures.items()
            },
        }
        for one in systems
    ]


def _plain(found: Measured) -> dict:
    content = asdict(found)
    degrees = found.difference and found.difference.degrees
    if degrees == float("inf"):  # JSON has no such number
        content["difference"]["degrees"] = None
    return content
