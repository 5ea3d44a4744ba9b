"""``diverse-mha reproduce --tune``: finds the best settings of every row on the validation set.

Each row tries the values of the first ``--tune``. With the best of these it tries the values of the
second, and so on. A single value is used in all trials. No test set is read before the choice is
written.
"""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, write_json
from diverse_mha.common.options import split_list
from diverse_mha.common.status import read_status
from diverse_mha.common.tables import Layout, to_text, write_texts
from diverse_mha.recipes.recipe import lookup, parse_overrides
from diverse_mha.training.read_log import TRAIN_LOG, read_log
from experiments import runs
from experiments.numbers import Choices, best_validation
from experiments.papers import Row, Table
from experiments.runner import LOG, Runner
from experiments.runs import PLACES, Place, Run, Step

#: Short names of keys. For another name, the group is the one in the recipe with this key.
SHORT = {"lr": "optimization.lr", "dropout": "model.dropout"}


@dataclass
class Trainer(Runner):
    """Trains, and reads the validation score from the log instead of evaluating.

    The score of a training that diverges is infinite.
    """

    def result(self, run: Run) -> dict | None:
        """Return the validation score of a finished training."""
        log = run.folder(self.place.out) / TRAIN_LOG
        status = read_status(log.parent)
        if status is None or not status.finished:
            return None
        return {"validation": validation(run, log), "seconds": {}, "scores": {}}

    def step(self, run: Run, place: Place) -> Step:
        """Return the command that trains a run."""
        return runs.train(run, place)

    def _carry_out(self, run: Run, folder: Path, step: Step) -> Iterator:
        begun = time.monotonic()
        try:
            yield from self._execute(step, folder / LOG)
        except UserError:
            status = read_status(folder)
            if status is None or not status.diverged:
                raise
            return {"validation": math.inf, "seconds": {"train": time.monotonic() - begun}}
        if (result := self.result(run)) is None:
            raise UserError(f"{folder / TRAIN_LOG}: the training has not ended; run again")
        self._tidy(run, folder)
        return result | {"seconds": {"train": time.monotonic() - begun}}


def validation(run: Run, log: Path) -> float:
    """Return the best checkpoint's score: loss in bits per token, or minus the accuracy."""
    entries = read_log(log)["validation"]
    if run.pipeline.kind == "classifier":
        scores = [-entry["accuracy"] for entry in entries if "accuracy" in entry]
        if scores:
            return min(scores)
    elif best := best_validation(run, entries):
        return best.get("nll_loss", best["loss"])
    raise UserError(f"{log}: has no validation score; validate more often or train longer")


def read_sweep(word: str, table: Table, choices: Choices) -> tuple[str, list]:
    """Parse a sweep such as ``lr=0.001,0.002``; return the recipe's key and the values to try."""
    name, separator, text = word.partition("=")
    values = split_list(text)
    recipes = [_run(table, row, {}, choices, choices.seeds[0]).composed for row in table.rows]
    key = SHORT.get(name, name)
    if separator and "." not in key:
        items = [item for recipe in recipes for item in recipe.items()]
        groups = {group for group, there in items if isinstance(there, dict) and name in there}
        if len(groups) != 1:
            raise UserError(f"--tune {word}: name the group too, as in model.{name}")
        key = f"{groups.pop()}.{name}"
    read = [parse_overrides([f"{key}={value}"])[1][key] for value in values] if all(values) else []
    if not separator or not read or any(value in read[:n] for n, value in enumerate(read)):
        raise UserError(f"--tune {word}: give a key and different values, as in lr=0.001,0.002")
    if any(isinstance(lookup(recipe, key), list) for recipe in recipes):
        read = [[value] for value in read]
    for row, value in itertools.product(table.rows, read):
        run = _run(table, row, {key: value}, choices, choices.seeds[0])
        got = lookup(run.composed, key)
        if tuple(key.split(".")) in PLACES or got != value and (got, value) != (None, False):
            raise UserError(f"--tune {word}: the command or the table sets {key}; leave it out")
    return key, read


def tune(table: Table, words: Sequence[str], choices: Choices, runner: Trainer, name: str) -> bool:
    """Try all settings; print and write the trials.

    Returns:
        True if every row has a best setting. Only then the best settings are written.
    """
    check_table(table, "--tune")
    sweeps = [read_sweep(word, table, choices) for word in words]
    keys = [key for key, _ in sweeps]
    for key in keys:
        if keys.count(key) > 1:
            raise UserError(f"--tune {key}: is given twice; give all its values in one --tune")
    folder = runner.place.out / choices.scale / "tables"
    choice = {"paper": table.paper, "table": table.name, "scale": choices.scale}
    choice |= {"updates": choices.updates, "seeds": list(choices.seeds), "tune": list(words)}
    _check_choice(folder / f"{name}.json", choice, table.rows)
    fixed = {key: values[0] for key, values in sweeps if len(values) == 1}
    best: dict[str, dict] = {row.name: dict(fixed) for row in table.rows}
    scores: dict[tuple, float] = {}  # (row, settings) -> score
    for key, values in (sweep for sweep in sweeps if len(sweep[1]) > 1):
        rows = [row for row in table.rows if row.name in best]
        tried = [(row, best[row.name] | {key: value}) for value in values for row in rows]
        trials = {
            (row.name, _spelt(settings)): [
                _run(table, row, settings, choices, seed) for seed in choices.seeds
            ]
            for row, settings in tried
        }
        by_seed = zip(*trials.values(), strict=True)
        results = runner.run_all([run for runs in by_seed for run in runs])
        for trial, trained in trials.items():
            if results.keys() >= set(trained):
                scores[trial] = mean(results[run]["validation"] for run in trained)
        for row in rows:
            mine = {_spelt(settings): settings for other, settings in tried if other is row}
            missing = [words for words in mine if (row.name, words) not in scores]
            chosen = min(mine, key=lambda words: scores.get((row.name, words), math.inf))
            if missing or math.isinf(scores[row.name, chosen]):
                why = f"{'; '.join(missing)} failed" if missing else "all diverged"
                print(f"{row.name}: not chosen, {why}", flush=True)
                del best[row.name]
            else:
                best[row.name] = mine[chosen]
    layout = lay_out(table, scores, best, choices)
    print("\n" + to_text(layout))
    files = write_texts(layout, folder, name)
    complete = len(best) == len(table.rows)
    if complete:
        files.append(folder / f"{name}.json")
        write_json(files[-1], choice | {"rows": best})
    print("written: " + ", ".join(map(str, files)) + "\n", flush=True)
    return complete


def _check_choice(file: Path, choice: Mapping, rows: Sequence[Row]) -> None:
    """Raise an error if the file has a choice of another ``--tune``, which would be replaced."""
    if not file.is_file():
        return
    before = dict(read_json(file, "move it away"))
    if set(before.pop("rows", ())) != {row.name for row in rows} or before != choice:
        raise UserError(f"{file}: has the choice of another --tune or other rows; move it away")


def lay_out(
    table: Table, scores: Mapping[tuple, float], best: Mapping[str, dict], choices: Choices
) -> Layout:
    """Lay out the trials, one line per setting, in the order of the rows."""
    accuracy = table.tested == "accuracy"
    lines: list[tuple[str, ...]] = []
    for row in table.rows:
        mine = {words: score for (name, words), score in scores.items() if name == row.name}
        chosen = _spelt(best[row.name]) if row.name in best else ""
        for words, score in mine.items():
            shown = f"{-score:.2f}" if accuracy else f"{score:.4f}"
            shown = "diverged" if math.isinf(score) else shown
            lines.append((row.name, words, shown, "chosen" if words == chosen else ""))
    seeds = ", ".join(map(str, choices.seeds))
    budget = "the recipe's" if choices.updates is None else f"{choices.updates:,}"
    kind = "accuracy, %, higher" if accuracy else "loss, bits per token, lower"
    return Layout(
        f"{table.paper}, {table.name}: settings tried",
        ("row", "settings", "validation", "choice"),
        tuple(lines),
        (f"Validation {kind} is better; updates of each training: {budget}; seeds: {seeds}.",),
        names=2,
    )


def tuned(item: Table, file: Path, scale: str) -> Table:
    """Return a table whose rows have the settings that ``--tune`` chose."""
    check_table(item, "--tuned")
    if not file.is_file():
        raise UserError(f"--tuned {file}: no such file; --tune writes it")
    content = read_json(file, "tune again")
    choice = content.get("rows") if isinstance(content, dict) else None
    if not (isinstance(choice, dict) and all(isinstance(one, dict) for one in choice.values())):
        raise UserError(f"--tuned {file}: contains no choice; give the file that --tune wrote")
    of = [content.get(key) for key in ("paper", "table", "scale")]
    if of != [item.paper, item.name, scale]:
        raise UserError(
            f"--tuned {file}: is for {' '.join(map(str, of))}, not for {item.paper} {item.name} "
            f"{scale}; tune this table"
        )
    rows = []
    for row in item.rows:
        if row.name not in choice:
            raise UserError(f"--tuned {file}: has no row {row.name}; tune it, or leave it out")
        cells = tuple(
            cell and replace(cell, experiment=cell.experiment.but(choice[row.name]))
            for cell in row.cells
        )
        rows.append(replace(row, cells=cells))
    notes = (*item.notes, f"Every row has its own best settings, from {file.name}.")
    return replace(item, rows=tuple(rows), notes=notes)


def check_table(item: Table, option: str) -> None:
    """Raise an error if a row of the table has several trainings."""
    if any(len({c and c.experiment for c in row.cells}) != 1 for row in item.rows):
        raise UserError(
            f"{option}: rows of {item.paper} {item.name} have several trainings; use a table of "
            "the study"
        )


def _run(table: Table, row: Row, settings: Mapping, choices: Choices, seed: int) -> Run:
    return choices.run(row.cells[0].experiment.but(dict(settings)), table, seed)


def _spelt(settings: Mapping[str, object]) -> str:
    """Return settings as one short line."""

    def text(value: object) -> str:
        return "+".join(map(str, value)) if isinstance(value, list) else str(value)

    return ", ".join(f"{key.rpartition('.')[2]}={text(value)}" for key, value in settings.items())
