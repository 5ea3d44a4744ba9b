"""From runs and their results to the numbers of a table."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

from experiments.experiments import Cell, Experiment, Row, Table
from experiments.measures import MEASURES
from experiments.plan import Need, Run, plan
from experiments.runner import Runner

_planned = functools.cache(plan)


@dataclass(frozen=True)
class Choices:
    """Choices of the command line for all runs of a table."""

    scale: str
    seeds: tuple[int, ...] = (1,)
    updates: int | None = None  # None: the recipe's
    bf16: bool | None = None  # train in bfloat16; None: as each recipe says

    def run(self, experiment: Experiment, item: Table, seed: int) -> Run:
        """Turn an experiment of a table into a run."""
        settings = experiment.settings | item.settings.get(self.scale, {})
        if self.bf16 is not None:
            settings |= {"common.bf16": self.bf16, "common.fp16": False}
        experiment = replace(experiment, settings=settings)
        return _planned(experiment, self.scale, seed, updates=self.updates)

    def need(self, item: Table, seed: int, cell: Cell) -> Need:
        """Return the run that a cell needs."""
        # The other run has another seed, so it is never the same.
        other = None if cell.against is None else self.run(cell.against, item, seed + 1)
        heads = MEASURES[cell.measure].heads
        return Need(self.run(cell.experiment, item, seed), heads, other)


@dataclass(frozen=True)
class Number:
    """The paper's value of a cell and ours."""

    measure: str  # a name of ``MEASURES``
    paper: float | None
    ours: tuple[float, ...]  # a value a seed
    seeds: tuple[int, ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None without one."""
        return mean(self.ours) if self.ours else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds (n-1); None under two."""
        return stdev(self.ours) if len(self.ours) > 1 else None


#: Rows, each with a number a cell.
Filled = Sequence[tuple[Row, list[Number | None]]]


def needs_of(item: Table, rows: Sequence[Row], choices: Choices) -> list[Need]:
    """Return the runs that rows need, seed by seed."""
    cells = [cell for row in rows for cell in row.cells if cell and cell.experiment]
    return [choices.need(item, seed, cell) for seed in choices.seeds for cell in cells]


def fill(
    table: Table, rows: Sequence[Row], choices: Choices, found: Mapping[Run, dict], runner: Runner
) -> Filled:
    """Fill rows of a table; a cell lacks the values of runs that failed."""

    def number(cell: Cell) -> Number:
        measure = MEASURES[cell.measure]
        ours = {}
        for seed in choices.seeds if cell.experiment is not None else ():
            need = choices.need(table, seed, cell)
            if not found.keys() >= set(need.runs):
                continue
            content = runner.heads(need) if measure.heads else found[need.run]
            value = None if content is None else measure.read(content)
            if value is not None:
                ours[seed] = value
        return Number(cell.measure, cell.paper, tuple(ours.values()), tuple(ours))

    return [(row, [cell and number(cell) for cell in row.cells]) for row in rows]
