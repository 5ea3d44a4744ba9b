"""Tests a table's rows against its baseline, as ``diverse-mha compare`` tests systems."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.evaluation.comparison.runs import Scored, scores_of
from diverse_mha.evaluation.comparison.systems import System, compare_systems, lay_out, to_json
from experiments.numbers import RESULT, Choices, Filled, Results, valid_nll
from experiments.papers import Row, Table
from experiments.printer import caveats, write_all
from experiments.runner import failure_told
from experiments.runs import Place, Run

VALID = "valid nll"
VALID_STEP = 0.001  # rounding step: fairseq logs the loss with three decimals
VALID_NOTE = (
    "valid nll: token loss on the validation set, bits per token, lower is better; in all rows it "
    "also selected the checkpoint."
)


def compared(
    finished: Mapping[Row, list[Run]], found: Mapping[Run, dict], place: Place
) -> list[System]:
    """Compare all rows with the first, by test scores and by token loss on the validation set.

    Runs without scores are skipped, with one line each. The result is empty if fewer than two rows
    are left, or if the first is skipped.
    """
    scored: dict[Row, list[Scored]] = {}
    for row, run in ((row, run) for row, runs in finished.items() for run in runs):
        with failure_told(f"      tests without {run.name}: "):
            one = _scored(run, found[run], place)  # on an error the row is not added
            scored.setdefault(row, []).append(one)
    if len(scored) < 2 or next(iter(scored)) is not next(iter(finished)):
        return []
    systems = [System(row.label, tuple(scores)) for row, scores in scored.items()]
    own = (VALID, "perplexity", "accuracy")
    return compare_systems(systems, steps={VALID: VALID_STEP}, own=own)


def _scored(run: Run, result: Mapping, place: Place) -> Scored:
    """Return a run's scores from its result; the files in its folder may have changed since."""
    folder, file, reference = run.folder(place.out), run.test_file(place), None
    if file.stem not in result["scores"]:
        raise UserError(f"{folder / RESULT}: has no score on the test set; delete it and run again")
    if run.pipeline.kind == "translation":
        reference = run.data(place).parent / "raw" / f"test.{run.languages[1]}"
    scores, *rest = scores_of(file, result["scores"][file.stem], reference)
    loss = valid_nll(run, folder)
    return Scored(str(folder), run.seed, scores | ({} if loss is None else {VALID: loss}), *rest)


def marked(results: Results, filled: Filled) -> Filled:
    """Mark BLEU that differs significantly from that of the ``baseline`` row above.

    The p-value is that of ``diverse-mha compare``, with Holm's correction over the rows that the
    column compares with this baseline.
    """
    rows = {row: list(numbers) for row, numbers in filled}
    for column in range(len(results.plan.table.columns)):
        blocks: list[dict[Row, list[Run]]] = []
        for row, runs in results.runs(column).items():
            cell = row.cells[column]
            if cell.measure == "bleu" and runs:
                if cell.experiment.method == "baseline":
                    blocks.append({})
                if blocks:
                    blocks[-1][row] = runs
        for block in blocks:
            with failure_told("      marks: "):
                systems = compared(block, results.found, results.place)
                by_label = {system.name: system for system in systems}
                for row in (row for row in block if row.label in by_label):
                    bleu = by_label[row.label].measures["BLEU"]
                    if bleu.holm is not None and bleu.holm < 0.05:
                        stars = "*" * (1 + (bleu.holm < 0.01))
                        mark = stars + ("" if bleu.difference.over_seeds else "†")
                        rows[row][column] = replace(rows[row][column], mark=f" {mark}")
    return [*rows.items()]


def report(results: Results, to: Path) -> list[Path]:
    """Print the tests of a study's rows, write them beside ``to``, and return the files."""
    table, choices = results.plan.table, results.plan.choices
    for earlier in to.parent.glob(f"{to.name}.tests.*"):  # these files may have other rows
        earlier.unlink()
    runs = results.runs()
    rows = sorted(runs, key=lambda row: row.name != table.baseline)
    if rows[0].name != table.baseline:
        print(f"no tests: they need the row {table.baseline}, which --rows leaves out")
        return []
    with failure_told("      tests: "):
        systems = compared({row: runs[row] for row in rows}, results.found, results.place)
        if systems:
            tests = lay_out_tests(table, systems, choices)
            print("\n" + to_text(tests))
            return write_all(tests, to.parent, f"{to.name}.tests", {"systems": to_json(systems)})
    return []


def lay_out_tests(table: Table, systems: Sequence[System], choices: Choices) -> Layout:
    """Lay out the systems of :func:`compared`."""
    return lay_out(
        systems,
        f"{table.title}: is the difference more than chance?",
        tested=(table.tested, VALID),
        more=(*([VALID_NOTE] if VALID in systems[0].measures else []), *caveats(choices)),
    )
