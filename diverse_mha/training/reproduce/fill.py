"""From runs and their results to the numbers of a table."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from diverse_mha.common.errors import UserError
from diverse_mha.training.reproduce.experiments import Cell, Experiment, Figure, Row, Table, freeze
from diverse_mha.training.reproduce.measures import MEASURES
from diverse_mha.training.reproduce.plan import Run, plan
from diverse_mha.training.reproduce.results import had_to_share
from diverse_mha.training.reproduce.runner import RowError, Runner
from diverse_mha.training.reproduce.terminal import say


@functools.cache  # every table asks for its runs several times
def _planned(
    experiment: Experiment, scale: str, seed: int, settings: tuple, updates: int | None
) -> Run:
    return plan(experiment, scale, seed, settings=dict(settings), updates=updates)


@dataclass(frozen=True)
class Choices:
    """What the command line chose for all runs of a table.

    Attributes:
        scale: The scale.
        seeds: One run of every experiment each.
        updates: Updates instead of the recipe's, or None.
        bf16: Whether to train in bfloat16.
    """

    scale: str
    seeds: tuple[int, ...] = (1,)
    updates: int | None = None
    bf16: bool = False

    def run(self, experiment: Experiment, item: Table | Figure, seed: int) -> Run:
        """Turn an experiment of a table or figure into a run."""
        settings = item.settings.get(self.scale, {}) | ({"common.bf16": True} if self.bf16 else {})
        settings = freeze(settings.items())
        return _planned(experiment, self.scale, seed, settings, self.updates)

    def against(self, experiment: Experiment, item: Table | Figure, seed: int) -> Run:
        """Return the run to compare with: trained with another seed, so never with itself."""
        return self.run(experiment, item, seed + 1)


@dataclass(frozen=True)
class Number:
    """A cell's value by the paper and by us.

    Attributes:
        measure: A name of ``MEASURES``.
        paper: The paper's value, or None.
        ours: By seed, those there are.
        disturbed: Speeds of trainings that had to share the machine; they count only where
            there are no others.
    """

    measure: str
    paper: float | None
    ours: tuple[float, ...]
    disturbed: tuple[float, ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None if there is none."""
        values = self.ours or self.disturbed
        return mean(values) if values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds (n-1); None under two."""
        values = self.ours or self.disturbed
        return stdev(values) if len(values) > 1 else None

    @property
    def doubtful(self) -> bool:
        """Whether all there is was disturbed."""
        return bool(self.disturbed) and not self.ours

    @property
    def count(self) -> int:
        """Number of seeds that have a value."""
        return len(self.ours) + len(self.disturbed)


def runs_of(table: Table, rows: Sequence[Row], choices: Choices) -> list[Run]:
    """Name the runs that rows need, in order, each once."""
    runs = []
    for seed in choices.seeds:
        for cell in (cell for row in rows for cell in row.cells if cell is not None):
            if cell.experiment is not None:
                runs.append(choices.run(cell.experiment, table, seed))
            if cell.against is not None:
                runs.append(choices.against(cell.against, table, seed))
    return list(dict.fromkeys(runs))


def measured(
    table: Table, rows: Sequence[Row], choices: Choices
) -> list[tuple[Run, Mapping[str, str], Run | None]]:
    """Name what has to be measured on heads: run, options of ``analyze``, and whom against."""
    found = {}
    for seed in choices.seeds:
        for cell in (cell for row in rows for cell in row.cells if cell is not None):
            options = MEASURES[cell.measure].heads
            if cell.experiment is not None and options:
                run, other = choices.run(cell.experiment, table, seed), None
                if cell.against is not None:
                    other = choices.against(cell.against, table, seed)
                found[run, tuple(options.items()), other] = (run, options, other)
    return list(found.values())


def fill(
    table: Table,
    rows: Sequence[Row],
    choices: Choices,
    found: Mapping[Run, dict],
    runner: Runner,
) -> Iterator[tuple[Row, list[Number | None]]]:
    """Fill rows, measuring heads where a cell asks for it.

    Args:
        table: The table.
        rows: Those of its rows that are wanted.
        choices: Scale, seeds and updates of the runs.
        found: By run, its result; runs that failed are missing.
        runner: Measures heads.

    Yields:
        Each row with a number a cell; a value that could not be had is missing from it.
    """
    for row in rows:
        numbers = []
        for cell in row.cells:
            if cell is None:
                numbers.append(None)
                continue
            ours, disturbed = [], []
            for seed in choices.seeds if cell.experiment is not None else ():
                value = _value(cell, table, choices, seed, found, runner)
                if value is None:
                    continue
                shared = cell.measure == "speed" and had_to_share(
                    found[choices.run(cell.experiment, table, seed)]
                )
                (disturbed if shared else ours).append(value)
            numbers.append(Number(cell.measure, cell.paper, tuple(ours), tuple(disturbed)))
        yield row, numbers


def _value(
    cell: Cell,
    table: Table,
    choices: Choices,
    seed: int,
    found: Mapping[Run, dict],
    runner: Runner,
) -> float | None:
    measure = MEASURES[cell.measure]
    run = choices.run(cell.experiment, table, seed)
    if run not in found:
        return None
    if not measure.heads:
        return measure.read(found[run])
    other = None
    if measure.against:
        other = choices.against(cell.against, table, seed)
        if other not in found:
            return None
    try:
        heads = runner.heads(run, measure.heads, other)
        return measure.read(json.loads(heads.read_text(encoding="utf-8")))
    except (RowError, UserError) as error:
        say(f"      {run.name}: FAILED: {error}")
        return None
