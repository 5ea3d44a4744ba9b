"""The published runs, their rows, and the cells that tables are made of."""

import atexit
import csv
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from statistics import mean, stdev

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.comparison.runs import Scored
from diverse_mha.evaluation.comparison.statistics import Difference, by_rows_and_seeds, holm
from diverse_mha.evaluation.comparison.systems import System, compare_systems, interval, p_value
from experiments.papers import PAPERS
from experiments.study import VALID_STEP
from results import archive
from results.kept import OfCorpus

HEADS = ("svcca", "cka", "exp_d_subspace", "exp_d_output", "jsd")
Cells = list[str | None]  # None: not computed, but kept


@dataclass(frozen=True, eq=False)
class Run:
    """A row of ``runs.csv``."""

    values: Mapping[str, str]

    def __getitem__(self, column: str) -> float:
        """Return a number."""
        return float(self.values[column])

    @property
    def seed(self) -> int:
        """Random seed."""
        return int(self.values["seed"])

    @property
    def float32(self) -> bool:
        """True if the run was trained in float32."""
        return self.values["precision"] == "float32"

    @property
    def label(self) -> str:
        """Label of the run's row in the table that the run was published with."""
        rows = PAPERS["study"][self.values["table"]].rows
        return next(row.label for row in rows if row.name == self.values["row"])


Rows = dict[str, list[Run]]  # by label, the baseline first


@dataclass
class Study:
    """The published runs; BLEU is compared where ``data`` has the reference of the test set."""

    data: Path  # folder of prepared corpora
    file: Path | None = None
    #: Messages on references that were needed and could not be used.
    lacking: set[str] = field(default_factory=set, init=False)
    _scored: dict[str, Scored] = field(default_factory=dict, init=False)  # cache

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, in the order of the file."""
        with (self.file or archive.RUNS).open(encoding="utf-8", newline="") as lines:
            return [Run(row) for row in csv.DictReader(lines)]

    def rows(self, label: Callable[["Run"], str | None]) -> Rows:
        """Return runs by the label of their row; a run without label is left out."""
        rows: Rows = {}
        for run in self.runs:
            if (name := label(run)) is not None:
                rows.setdefault(name, []).append(run)
        return rows

    def folder(self, run: Run) -> Path:
        """Return the folder of a run, unpacked from the archive."""
        (folder,) = self.unpacked.glob(f"small/runs/*.{run.values['run']}")
        return folder

    def compare(self, rows: Rows) -> Sequence[System]:
        """Compare rows with the first by BLEU and chrF over seeds and sentences."""

        def scored(run: Run) -> Scored:
            key = run.values["run"]
            if key not in self._scored:
                folder = self.folder(run)
                reference = archive.reference_of(folder, self.data)
                self._scored[key] = archive.score_again(folder, run.seed, reference)
            return self._scored[key]

        systems = [System(label, tuple(map(scored, runs))) for label, runs in rows.items()]
        return compare_systems(systems)

    def has_reference(self, run: Run) -> bool:
        """Return True if ``data`` has the reference of a run's test set."""
        try:
            if not self.data.is_dir():  # known without the seconds of unpacking
                raise UserError(
                    f"{self.data}: no such folder, so BLEU cannot be tested; give --data"
                )
            archive.reference_of(self.folder(run), self.data)
        except UserError as message:
            self.lacking.add(str(message))
            return False
        return True

    @cached_property
    def unpacked(self) -> Path:
        """A folder with the runs of the archive; removed at the end of the process."""
        folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        archive.unpack(folder)
        return folder

    def bleu(self, rows: Rows) -> dict[str, list[str | None]]:
        """Return row -> difference, corrected p and detectable difference in BLEU.

        They are None if the test set's reference is not there.
        """
        if not self.has_reference(next(iter(rows.values()))[0]):
            return dict.fromkeys(rows, [None] * 3)
        cells = {}
        for system in self.compare(rows):
            bleu = system.measures["BLEU"]
            least = bleu.difference.detectable if bleu.difference is not None else None
            over_seeds = least is not None and bleu.difference.over_seeds
            found = difference(bleu.difference, 2), p_value(bleu.holm)
            cells[system.name] = [*map(OfCorpus, found)]
            cells[system.name] += [OfCorpus(f"{least:.1f}" if over_seeds else "")]
        return cells


def difference(test: Difference | None, digits: int) -> str:
    """Format a difference, with † if it holds for these models only."""
    if test is None:
        return ""
    mark = "" if test.interval and test.over_seeds else " †"
    return interval(test, digits).rstrip("†") + mark


def each(runs: Sequence[Run], column: str, digits: int) -> str:
    """Format a column of all seeds."""
    return " ".join(f"{run[column]:.{digits}f}" for run in runs)


def average(runs: Sequence[Run], column: str, digits: int) -> str:
    """Format the mean of a column over the seeds."""
    return f"{mean(run[column] for run in runs):.{digits}f}"


def spread(runs: Sequence[Run], column: str, digits: int) -> str:
    """Format the mean of a column and its standard deviation over the seeds."""
    deviation = stdev(run[column] for run in runs)
    return f"{average(runs, column, digits)} ± {deviation:.{digits}f}"


def by_seed(rows: Rows, column: str) -> dict[str, dict[int, float]]:
    """Return row -> seed -> value of a column."""
    return {label: {run.seed: run[column] for run in runs} for label, runs in rows.items()}


def tested(scores: Mapping[str, Mapping[int, float]], digits: int, step: float = 0) -> dict:
    """Return row -> its difference from the first row, seed by seed, and the corrected p."""
    tests = by_rows_and_seeds(list(scores.values()), step)
    corrected = holm([test and test.p for test in tests])
    cells = [[difference(d, digits), p_value(p)] for d, p in zip(tests, corrected, strict=True)]
    return dict(zip(scores, [["", ""], *cells], strict=True))


def tested_loss(rows: Rows) -> dict[str, Cells]:
    """Return row -> its difference in validation loss, and the corrected p."""
    return tested(by_seed(rows, "logged_nll"), 3, VALID_STEP)


def heads(runs: Sequence[Run]) -> Cells:
    """Format the measures of the heads, means over the seeds."""
    return [average(runs, column, 3) for column in HEADS]


def runs_of(*tables: str, seeds: Collection[int] = range(99)) -> Callable[[Run], str | None]:
    """Return a function for :meth:`Study.rows`: labels of these tables' runs without float32."""

    def label(run: Run) -> str | None:
        wanted = run.values["table"] in tables and run.seed in seeds and not run.float32
        return run.label if wanted else None

    return label


def runs_shared_with(table: str, seeds: Collection[int]) -> Callable[[Run], str | None]:
    """As :func:`runs_of`, for one table, with the runs of its rows that another table publishes."""

    def label(run: Run) -> str | None:
        if run.seed not in seeds or run.float32:
            return None
        return _labels_of(table).get((run.values["table"], run.values["row"]))

    return label


@cache
def _labels_of(table: str) -> dict[tuple[str, str], str]:
    """Return the labels of a table's rows by the table and row that publish their runs."""
    labels, wanted = {}, PAPERS["study"][table]
    for row in wanted.rows:
        publishing, its_row = archive.publishing_rows()[archive.run_name(wanted, row)]
        labels[publishing.name, its_row.name] = row.label
    return labels


#: Runs of the full recipe. The seeds from 6 on belong to the replication.
TO_THE_END = runs_of("translation", seeds=range(6))
