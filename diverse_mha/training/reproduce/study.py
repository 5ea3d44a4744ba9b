"""What a study adds to a table: a table of tests against the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from diverse_mha.common.tables import Layout
from diverse_mha.evaluation.comparison.runs import Scored, check_alike, read_run
from diverse_mha.evaluation.comparison.systems import RESAMPLES, System, compare_systems
from diverse_mha.evaluation.comparison.tables import lay_out
from diverse_mha.training.reproduce import steps
from diverse_mha.training.reproduce.experiments import Row, Table
from diverse_mha.training.reproduce.fill import Choices
from diverse_mha.training.reproduce.plan import Run
from diverse_mha.training.reproduce.results import valid_nll
from diverse_mha.training.reproduce.steps import Place

VALID = "valid nll"
VALID_STEP = 0.001  # fairseq logs it to three decimals
VALID_NOTE = (
    "valid nll: token loss on the validation set, bits a token, lower is better; it also chose the "
    "checkpoints, of all rows alike."
)


def runs_by_row(
    table: Table, rows: Sequence[Row], choices: Choices, found: Mapping[Run, dict]
) -> dict[Row, list[Run]]:
    """Name the finished runs of each row, in the order of the seeds."""
    return {
        row: [
            run
            for run in (choices.run(row.cells[0].experiment, table, s) for s in choices.seeds)
            if run in found
        ]
        for row in rows
    }


def tested_rows(table: Table, finished: Mapping[Row, list[Run]], place: Place) -> list[System]:
    """Compare the rows that have a finished run with the baseline row.

    By the score that the table tests, and where a validation has one by the token loss, which
    tells models apart that BLEU on a small test set cannot.

    Returns:
        The baseline and the others; empty where the baseline or all others are missing.
    """
    there = [row for row, runs in finished.items() if runs]
    ordered = sorted(there, key=lambda row: row.name != table.baseline)
    if len(ordered) < 2 or ordered[0].name != table.baseline:
        return []
    systems = []
    for row in ordered:
        scored = tuple(_scored(run, place) for run in finished[row])
        systems.append(System(row.label, scored))
    check_alike([(one.name, one.runs) for one in systems])
    return compare_systems(systems[0], systems[1:], steps={VALID: VALID_STEP})


def _scored(run: Run, place: Place) -> Scored:
    folder, reference = run.folder(place.out), None
    if run.recipe.kind == "translation":
        reference = steps.data_folder(run, place).parent / "raw" / f"test.{run.languages[1]}"
    found = read_run(folder, reference=reference)
    loss = valid_nll(run, folder)
    return found if loss is None else replace(found, scores=found.scores | {VALID: loss})


def lay_out_tests(table: Table, systems: Sequence[System]) -> Layout:
    """Lay out what :func:`tested_rows` returned, where that is not empty."""
    return lay_out(
        systems,
        f"{table.title}: is the difference more than chance?",
        resamples=RESAMPLES,
        tested=(table.tested, VALID),
        more=(VALID_NOTE,) if VALID in systems[0].measures else (),
    )
