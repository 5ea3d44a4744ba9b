"""Collects the result of a run in one JSON file, and fills a table with numbers from results."""

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, stdev

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json
from diverse_mha.common.machine import cores, processor, versions
from diverse_mha.recipes.recipe import lookup
from diverse_mha.training.read_log import TRAIN_LOG, read_log
from experiments.measures import EVERYTHING, MEASURES, is_part
from experiments.papers import Cell, Experiment, Row, Table
from experiments.runs import Need, Place, Run, plan

RESULT = "result.json"
_SCORES = ("test.json", "valid.json", "accuracy.json")
_planned = functools.cache(plan)


@dataclass(frozen=True)
class Choices:
    """Options of the command line that apply to all runs of a table."""

    scale: str
    seeds: tuple[int, ...] = (1,)
    updates: int | None = None  # None: the recipe's
    bf16: bool | None = None  # train in bfloat16; None: as in each recipe

    def run(self, experiment: Experiment, table: Table, seed: int) -> Run:
        """Return the run of an experiment of a table."""
        settings = experiment.settings | table.settings.get(self.scale, {})
        if self.bf16 is not None:
            settings |= {"common.bf16": self.bf16, "common.fp16": False}
        experiment = replace(experiment, settings=settings)
        return _planned(experiment, self.scale, seed, updates=self.updates)

    def need(self, table: Table, seed: int, cell: Cell) -> Need:
        """Return the run that a cell needs."""
        # The run to compare with has another seed, so that it always differs.
        other = None if cell.against is None else self.run(cell.against, table, seed + 1)
        heads = MEASURES[cell.measure].heads
        # A figure reads single pairs, which the published measurements lack.
        shared = other is None and not table.draw and is_part(heads)
        larger = EVERYTHING if shared else None
        return Need(self.run(cell.experiment, table, seed), heads, other, larger)


@dataclass(frozen=True)
class Plan:
    """A table and the run of each of its cells, planned once for all that is done with the table.

    Training, measuring, filling and drawing look the runs up here; see :func:`plan_table`.

    Attributes:
        table: the table.
        choices: the options that apply to all its runs.
        needs: (name of the row, heading of the column, seed) -> run and measurement of that cell,
            in the order of the seeds. A cell that is not trained is absent.
    """

    table: Table
    choices: Choices
    needs: Mapping[tuple[str, str, int], Need]

    @property
    def runs(self) -> list[Run]:
        """The runs of all cells, each once."""
        return list(dict.fromkeys(run for need in self.needs.values() for run in need.runs))

    def of(self, row: Row, column: str) -> dict[int, Need]:
        """Return what a cell needs, by seed; empty if the cell is not trained."""
        keys = ((row.name, column, seed) for seed in self.choices.seeds)
        return {key[-1]: self.needs[key] for key in keys if key in self.needs}


def plan_table(table: Table, choices: Choices) -> Plan:
    """Plan the runs of a table."""
    needs = {
        (row.name, column, seed): choices.need(table, seed, cell)
        for seed in choices.seeds
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell is not None and cell.experiment is not None
    }
    return Plan(table, choices, needs)


@dataclass(frozen=True)
class Number:
    """The paper's value of a cell and ours."""

    measure: str  # a name of ``MEASURES``
    paper: float | None
    ours: tuple[float, ...]  # one value per seed
    seeds: tuple[int, ...] = ()
    mark: str = ""  # ``*`` or ``**`` if our value differs significantly from the baseline's

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None without values."""
        return mean(self.ours) if self.ours else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds (n-1); None with fewer than two."""
        return stdev(self.ours) if len(self.ours) > 1 else None


#: Rows, each with one number per cell.
Filled = Sequence[tuple[Row, list[Number | None]]]


@dataclass(frozen=True)
class Results:
    """A planned table and the results of its runs."""

    plan: Plan
    place: Place
    found: Mapping[Run, dict]  # finished run -> its result
    heads: Callable[[Need], Mapping | None]  # returns the output of ``diverse-mha analyze``

    def runs(self, column: int = 0) -> dict[Row, list[Run]]:
        """Return the finished runs of each row in a column, in the order of the seeds."""
        table = self.plan.table
        needs = {row: self.plan.of(row, table.columns[column]) for row in table.rows}
        return {
            row: [need.run for need in by_seed.values() if need.run in self.found]
            for row, by_seed in needs.items()
            if by_seed
        }


def fill(results: Results) -> Filled:
    """Return the rows of a table with their numbers, which lack the values of failed runs."""

    def number(row: Row, column: str, cell: Cell) -> Number:
        measure, ours = MEASURES[cell.measure], {}
        for seed, need in results.plan.of(row, column).items():
            if not results.found.keys() >= set(need.runs):
                continue
            content = results.heads(need) if measure.heads else results.found[need.run]
            value = None if content is None else measure.read(content)
            if value is not None:
                ours[seed] = value
        return Number(cell.measure, cell.paper, tuple(ours.values()), tuple(ours))

    rows, columns = results.plan.table.rows, results.plan.table.columns
    filled = {
        row: [c and number(row, head, c) for head, c in zip(columns, row.cells, strict=True)]
        for row in rows
    }
    by_name = {row.name: numbers for row, numbers in filled.items()}
    for row in (row for row in rows if row.mean_of):
        cells = zip(filled[row], *(by_name[name] for name in row.mean_of), strict=True)
        filled[row] = [_mean(own, parts) for own, *parts in cells]
    return [*filled.items()]


def _mean(own: Number, parts: Sequence[Number]) -> Number:
    """Return the mean of numbers over the seeds that all of them have."""
    values = [dict(zip(part.seeds, part.ours, strict=True)) for part in parts]
    seeds = tuple(seed for seed in values[0] if all(seed in one for one in values))
    return replace(own, ours=tuple(mean(one[n] for one in values) for n in seeds), seeds=seeds)


def read(path: Path) -> dict | None:
    """Read a JSON file of a run's folder; None if it does not exist yet."""
    # An evaluation does not replace the translations beside a score that was deleted alone.
    what = f"{path.stem}.* there" if path.name in _SCORES else "it"
    return read_json(path, f"delete {what} and run again") if path.is_file() else None


def collect(run: Run, folder: Path, seconds: float, command: str, gpus: int) -> dict:
    """Gather a run's result from the files of its folder."""
    path = folder / TRAIN_LOG
    log = read_log(path) if path.is_file() else {"updates": None}
    if log["updates"] is None:
        raise UserError(f"{path}: records no training; delete {folder} and run again")
    best = best_validation(run, log["validation"])
    scores = {name.removesuffix(".json"): read(folder / name) for name in _SCORES}
    scores = {name: content for name, content in scores.items() if content is not None}
    for content in scores.values():
        content.pop("versions", None)
    return {
        "name": run.name,
        "key": run.key,
        "scale": run.scale,
        "recipe": run.recipe.config,
        "choices": dict(run.choices),
        "changed": dict(run.settings),
        "settings": dict(run.composed),
        "seed": run.seed,
        "updates": log["updates"],
        "parameters": log["parameters"],
        "steps_per_second": log["steps_per_second"],
        "valid_perplexity": best and best["ppl"],
        "scores": scores,
        "seconds": {"run": round(seconds, 1)},
        "commands": [command],
        "hardware": {
            "processor": processor(),
            "cores": cores(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "gpus": [torch.cuda.get_device_name(number) for number in range(gpus)],
        },
        "versions": versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def summary(result: dict) -> str:
    """Return a run's score in a few words: the test score, or with --tune the validation score."""
    if "validation" in result:
        diverged = math.isinf(result["validation"])
        return "diverged" if diverged else f"validation {abs(result['validation']):.4f}"
    for name, words in (
        ("accuracy", "accuracy {:.2f} %"),
        ("perplexity", "test perplexity {:.2f}"),
        ("bleu", "BLEU {:.2f}, sacreBLEU {:.2f}"),
    ):
        score = MEASURES[name].read(result)
        if score is not None:
            return words.format(score, MEASURES["sacrebleu"].read(result))
    return "finished"


def valid_nll(run: Run, folder: Path) -> float | None:
    """Return the best checkpoint's validation loss, in bits per token; None for a classifier."""
    best = best_validation(run, read_log(folder / TRAIN_LOG)["validation"])
    # With label smoothing, ``loss`` is not the token loss.
    return best and best.get("nll_loss", best["loss"])


def best_validation(run: Run, validation: list[dict]) -> dict | None:
    """Return the validation that selected the best checkpoint; None for a classifier.

    Among equal scores (rounded, as in the log) the last one counts, as in fairseq.
    """
    metric = lookup(run.composed, "checkpoint.best_checkpoint_metric") or "loss"
    choose = max if lookup(run.composed, "checkpoint.maximize_best_checkpoint_metric") else min
    scored = [entry for entry in validation if metric in entry and "ppl" in entry]
    scored = [entry for entry in scored if math.isfinite(entry[metric])]
    return choose(reversed(scored), key=lambda entry: entry[metric]) if scored else None
