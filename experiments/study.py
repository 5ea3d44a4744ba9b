"""Tests of a study's rows against its baseline."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.tables import Layout, to_text
from diverse_mha.evaluation.comparison.runs import Scored, scores_of
from diverse_mha.evaluation.comparison.systems import System, compare_systems, lay_out, to_json
from experiments import steps
from experiments.experiments import Row, Table
from experiments.fill import Choices
from experiments.plan import Run
from experiments.printer import caveats, write_all
from experiments.process import failure_told
from experiments.results import RESULT, valid_nll
from experiments.steps import Environment

VALID = "valid nll"
VALID_STEP = 0.001  # fairseq logs it to three decimals
VALID_NOTE = (
    "valid nll: token loss on the validation set, bits a token, lower is better; it also chose the "
    "checkpoints, of all rows alike."
)


def runs_by_row(
    table: Table, rows: Sequence[Row], choices: Choices, found: Mapping[Run, dict]
) -> dict[Row, list[Run]]:
    """Return the finished runs of each row, in the order of the seeds."""
    return {
        row: [
            run
            for run in (choices.run(row.cells[0].experiment, table, s) for s in choices.seeds)
            if run in found
        ]
        for row in rows
    }


def tested_rows(
    table: Table, finished: Mapping[Row, list[Run]], found: Mapping[Run, dict], place: Environment
) -> list[System]:
    """Compare rows with the baseline, by test scores and by the validation's token loss.

    Skips runs without scores, with one line each.

    Returns:
        The baseline and the others; empty if the baseline or all others are missing.
    """
    scored: dict[Row, list[Scored]] = {}
    for row, runs in finished.items():
        for run in runs:
            with failure_told(f"      tests without {run.name}: "):
                one = _scored(run, found[run], place)
                scored.setdefault(row, []).append(one)
    ordered = sorted(scored, key=lambda row: row.name != table.baseline)
    if len(ordered) < 2 or ordered[0].name != table.baseline:
        return []
    systems = [System(row.label, tuple(scored[row])) for row in ordered]
    return compare_systems(
        systems, steps={VALID: VALID_STEP}, own=(VALID, "perplexity", "accuracy")
    )


def _scored(run: Run, result: Mapping, place: Environment) -> Scored:
    """Return a run's scores from its result, since its folder may hold other ones."""
    folder, reference = run.folder(place.out), None
    file = steps.test_file(run, place)
    if file.stem not in result["scores"]:
        raise UserError(f"{folder / RESULT}: has no score on the test set; delete it and run again")
    if run.pipeline.kind == "translation":
        reference = steps.data_folder(run, place).parent / "raw" / f"test.{run.languages[1]}"
    scores, *rest = scores_of(file, result["scores"][file.stem], reference)
    loss = valid_nll(run, folder)
    return Scored(str(folder), run.seed, scores | ({} if loss is None else {VALID: loss}), *rest)


def report(
    table: Table,
    rows: Sequence[Row],
    found: Mapping[Run, dict],
    choices: Choices,
    place: Environment,
    to: Path,
) -> list[Path]:
    """Print the tests of a study's rows and return their files, beside ``to``."""
    finished = runs_by_row(table, rows, choices, found)
    systems, files = [], []
    for earlier in to.parent.glob(f"{to.name}.tests.*"):  # of other rows or seeds
        earlier.unlink()
    if table.baseline not in (row.name for row in finished):
        print(f"no tests: they are against the row {table.baseline}, which is not asked for")
    with failure_told("      tests: "):
        systems = tested_rows(table, finished, found, place)
    if systems:
        tests = lay_out_tests(table, systems, choices)
        print("\n" + to_text(tests))
        content = {"systems": to_json(systems)}
        files += write_all(tests, to.parent, f"{to.name}.tests", content)
    return files


def lay_out_tests(table: Table, systems: Sequence[System], choices: Choices) -> Layout:
    """Lay out the systems of :func:`tested_rows`."""
    return lay_out(
        systems,
        f"{table.title}: is the difference more than chance?",
        tested=(table.tested, VALID),
        more=(*([VALID_NOTE] if VALID in systems[0].measures else []), *caveats(choices)),
    )
