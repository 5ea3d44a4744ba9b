"""The tables of the results, made from the runs of the study, cell by cell as on their pages."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean

from diverse_mha.evaluation.comparison.runs import accuracy
from diverse_mha.evaluation.comparison.statistics import Difference, by_rows_and_seeds, holm, welch
from diverse_mha.evaluation.comparison.systems import System, compare_systems, interval, p_value
from experiments import packed
from experiments.packed import Kept
from experiments.study import VALID_STEP

#: Rows of the ten epochs that fail to train; they are not in its analysis of variance.
RUINED = ("Sub., encoder", "Out., all")
Row = list[str | None]  # cells of a table; None: cannot be made from what is here
Rows = dict[str, list[Kept]]  # by label


def sacrebleu(kept: Kept) -> float:
    """Read BLEU on the test set."""
    return kept.result["scores"]["test"]["sacrebleu"]


def by_seed(runs: Sequence[Kept], value: Callable[[Kept], float]) -> dict[int, float]:
    """Collect a value of a row's runs."""
    return {kept.run.seed: value(kept) for kept in runs}


def each(runs: Sequence[Kept], value: Callable[[Kept], float], digits: int) -> str:
    """Write a value of all seeds."""
    return " ".join(f"{value(kept):.{digits}f}" for kept in runs)


def average(runs: Sequence[Kept], value: Callable[[Kept], float], digits: int) -> str:
    """Write the mean of a value over the seeds."""
    return f"{mean(map(value, runs)):.{digits}f}"


def difference(found: Difference | None, digits: int) -> str:
    """Write a difference, if any, marked where it says nothing of other seeds."""
    if found is None:
        return ""
    mark = "" if found.interval and found.over_seeds else " †"
    return interval(found, digits).rstrip("†") + mark


def tested(scores: Mapping[str, Mapping[int, float]], digits: int, step: float = 0) -> dict:
    """Write by row the difference to the first, by seed, and its corrected p."""
    found = by_rows_and_seeds(list(scores.values()), step)
    corrected = holm([one and one.p for one in found])
    cells = [[difference(d, digits), p_value(p)] for d, p in zip(found, corrected, strict=True)]
    return dict(zip(scores, [["", ""], *cells], strict=True))


def tested_nll(rows: Rows) -> dict[str, Row]:
    """Write by row the difference of the validation loss, and its corrected p."""
    scores = {label: by_seed(runs, lambda k: k.nll) for label, runs in rows.items()}
    return tested(scores, 3, VALID_STEP)


def compared(rows: Rows, reference: Path) -> Sequence[System]:
    """Compare the rows with the first by BLEU and chrF over seeds and sentences."""
    return compare_systems(
        [
            System(label, tuple(packed.scored(kept, reference) for kept in runs))
            for label, runs in rows.items()
        ]
    )


def tested_bleu(rows: Rows, reference: Path) -> dict[str, Row]:
    """Write by row the difference of BLEU over seeds and sentences, its corrected p, and chrF."""
    if not reference.is_file():
        return dict.fromkeys(rows, [None] * 3)
    lines = {}
    for one in compared(rows, reference):
        bleu = one.measures["BLEU"]
        cells = [difference(bleu.difference, 2), p_value(bleu.holm)] if lines else ["", ""]
        lines[one.name] = [*cells, f"{one.measures['chrF'].mean:.2f}"]
    return lines


def summary(rows: Rows, reference: Path, _: Mapping) -> dict[str, Row]:
    """Make the short table: each row with intervals of its own, and what its test could find."""
    bleu: dict[str, Row] = dict.fromkeys(rows, [None] * 2)
    if reference.is_file():
        for one in compared(rows, reference):
            found = one.measures["BLEU"].difference
            over_seeds = found is not None and found.over_seeds
            least = f"{found.detectable:.1f}" if over_seeds else ""
            bleu[one.name] = [difference(found, 2), least]
    lines, base = {}, [kept.nll for kept in next(iter(rows.values()))]
    for label, runs in rows.items():
        loss = welch(base, [kept.nll for kept in runs], VALID_STEP) if lines else None
        lines[label] = [str(len(runs)), average(runs, sacrebleu, 2), *bleu[label]]
        lines[label].append(difference(loss, 3))
    return lines


def heads(runs: Sequence[Kept]) -> Row:
    """Write the measures of the heads, means over the seeds."""
    return [f"{mean(values):.3f}" for values in zip(*(kept.heads for kept in runs), strict=True)]


def to_the_end(rows: Rows, reference: Path, _: Mapping) -> dict[str, Row]:
    """Make the table of the full recipe."""
    lines = replication(rows, reference, _)
    return {label: [*line, *heads(rows[label]), None] for label, line in lines.items()}


def replication(rows: Rows, reference: Path, _: Mapping) -> dict[str, Row]:
    """Make the table of the replication."""
    bleu, nll = tested_bleu(rows, reference), tested_nll(rows)
    return {
        label: [str(len(runs)), each(runs, sacrebleu, 2), average(runs, sacrebleu, 2)]
        + [*bleu[label], each(runs, lambda k: k.nll, 3), *nll[label]]
        for label, runs in rows.items()
    }


def other_sets(rows: Rows, *_) -> dict[str, Row]:
    """Make what the scores say of the table of the other test sets."""
    return {
        label: [str(len(runs)), each(runs, lambda k: k.more["sacrebleu"], 2)]
        + [average(runs, lambda k: k.more["sacrebleu"], 2), *[None] * 6]
        for label, runs in rows.items()
    }


def ten_epochs(rows: Rows, _: Path, page: Mapping[str, Row]) -> dict[str, Row]:
    """Make the table of the small recipe; scores of runs that were not kept are the page's."""
    measured = ((0, sacrebleu, 2, 0), (4, lambda k: k.nll, 3, VALID_STEP))
    lines: dict[str, Row] = {label: [] for label in page}
    for first, value, digits, step in measured:
        scores = {
            label: {n: float(cells[first + n - 1]) for n in (1, 2) if cells[first + n - 1]}
            | {n: round(v, digits) for n, v in by_seed(rows.get(label, []), value).items()}
            for label, cells in page.items()
        }
        usual = {k: s for k, s in scores.items() if len(s) > 1 and k not in RUINED}
        tests, base = tested(usual, digits, step), next(iter(scores.values()))
        for label, found in scores.items():
            apart = mean(found.values()) - mean(base[seed] for seed in found)
            lines[label] += [f"{found[n]:.{digits}f}" if n in found else "" for n in (1, 2)]
            lines[label] += tests.get(label, [f"{apart:+.{digits}f} †", ""])
    for label, cells in page.items():
        runs = rows.get(label, [])
        lines[label] += heads(runs) if len(runs) == sum(map(bool, cells[:2])) else [None] * 5
    return lines


def fair_trial(rows: Rows, reference: Path, page: Mapping[str, Row]) -> dict[str, Row]:
    """Make the table of the smaller fair trial: the summary with p-values and every seed."""
    own = {label: rows[label] for label in page if label in rows}
    short, bleu = summary(own, reference, page), tested_bleu(own, reference)
    base = [kept.nll for kept in next(iter(own.values()))]
    losses = [welch(base, [kept.nll for kept in runs], VALID_STEP) for runs in own.values()]
    corrected = holm([None, *(loss.p for loss in losses[1:])])
    lines = {}
    for (label, runs), p in zip(own.items(), corrected, strict=True):
        count, average_bleu, apart, least, loss = short[label]
        lines[label] = [count, each(runs, sacrebleu, 2), average_bleu, apart, bleu[label][1], least]
        lines[label] += [each(runs, lambda k: k.nll, 3), loss, "" if p is None else p_value(p)]
    return lines


def tuned(rows: Rows, reference: Path, page: Mapping[str, Row]) -> dict[str, Row]:
    """Make its short table, of the rows that the page has."""
    return summary({label: rows[label] for label in page if label in rows}, reference, page)


def in_float32(rows: Rows, reference: Path, _: Mapping) -> dict[str, Row]:
    """Make the table of the rows in float32."""
    bleu, nll, lines = tested_bleu(rows, reference), tested_nll(rows), {}
    for label, runs in rows.items():
        scores = by_seed(runs, sacrebleu)
        lines[label] = [f"{scores[n]:.2f}" if n in scores else "" for n in range(2, 6)]
        lines[label] += [average(runs, sacrebleu, 2), *bleu[label][:2]]
        lines[label] += [each(runs, lambda k: k.nll, 3), *nll[label], *heads(runs)[:2]]
    return lines


def perplexity(split: str) -> Callable[[Kept], float]:
    """Return what reads a perplexity."""
    return lambda kept: kept.result["scores"][split]["perplexity"]


def language_models(rows: Rows, *_) -> dict[str, Row]:
    """Make the table of perplexities."""
    test = {label: by_seed(runs, perplexity("test")) for label, runs in rows.items()}
    differences, nll = tested(test, 2), tested_nll(rows)
    return {
        label: [f"{perplexity(s)(kept):.2f}" for s in ("valid", "test") for kept in runs]
        + [*differences[label], *nll[label]]
        for label, runs in rows.items()
    }


def heads_of_language_models(rows: Rows, *_) -> dict[str, Row]:
    """Make the table of their heads."""
    lines = {}
    for label, runs in rows.items():
        svcca, cka, *_, jsd = heads(runs)
        paper = runs[0].row.cells[0].paper
        lines[label] = [svcca, cka, f"{float(jsd):.1f}", None]
        lines[label] += [average(runs, perplexity("test"), 2), f"{paper:.2f}"]
    return lines


def logic(rows: Rows, *_) -> dict[str, Row]:
    """Make the table of accuracies, a row a run."""
    lines = {}
    for kept in (kept for runs in rows.values() for kept in runs):
        seed = kept.run.seed
        sets = kept.result["scores"]["accuracy"]["subsets"]
        cells = [f"{sets[f'test{n}']['accuracy']:.1f}" for n in range(1, 13)]
        for first, last, digits in ((1, 6, 1), (7, 12, 1), (1, 12, 2)):
            some = {f"test{n}": sets[f"test{n}"] for n in range(first, last + 1)}
            cells.append(f"{accuracy(some):.{digits}f}")
        label = kept.row.label + (f", seed {seed}" if seed > 1 else "")
        lines[label] = [*cells, f"{sets['valid']['accuracy']:.1f}"]
    return lines


_SMALL = ("translation-small", "fair-trial-small")
#: By name: how the table begins on its page, its runs, and what makes it.
TABLES = {
    "summary": (
        "| method | seeds |",
        lambda k: k.table.name == "translation" and k.run.seed < 6,
        summary,
    ),
    "to-the-end": (
        "| method, to the end |",
        lambda k: k.table.name == "translation" and k.run.seed < 6,
        to_the_end,
    ),
    "replication": (
        "| method, replication |",
        lambda k: k.table.name == "translation" and k.run.seed > 5,
        replication,
    ),
    "other-sets": ("| method, 2,532 other sentences |", lambda k: bool(k.more), other_sets),
    "ten-epochs": (
        "| method | seed 1 |",
        lambda k: k.table.name == "translation-small" and not k.float32 and k.run.seed < 3,
        ten_epochs,
    ),
    "fair-trial": (
        "| method, at its best |",
        lambda k: k.table.name in _SMALL and not k.float32,
        fair_trial,
    ),
    "tuned": (
        "| method, tuned |",
        lambda k: k.table.name in _SMALL and not k.float32,
        tuned,
    ),
    "float32": ("| method, in float32 |", lambda k: k.float32, in_float32),
    "ptb": ("| row, Penn Treebank |", lambda k: k.table.name == "ptb", language_models),
    "ptb-heads": ("| row | SVCCA |", lambda k: k.table.name == "ptb", heads_of_language_models),
    "logic": ("| row, logic |", lambda k: k.table.name == "logic", logic),
}
#: Those whose differences of BLEU need the reference.
BY_SENTENCES = ("summary", "to-the-end", "replication", "fair-trial", "tuned", "float32")
