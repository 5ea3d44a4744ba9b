"""Writes ``papers/models.csv``: a row for each model of the papers' figures, with its scores."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import ROOT, write_files
from diverse_mha.common.tables import csv_text
from experiments.measures import MEASURES
from experiments.numbers import RESULT, Choices, plan_table, read
from experiments.papers import Table, find
from experiments.runs import Run

PAGE = ROOT / "results" / "papers.md"
FILE = ROOT / "results" / "papers" / "models.csv"
SCORES = ("bleu", "sacrebleu", "perplexity", "accuracy", "valid_perplexity", "parameters")


def figures() -> Iterator[tuple[Table, int]]:
    """Yield the figures on the page, each with the seed of its models."""
    command = r"reproduce (\w+) (figure-\d) --scale small --seeds (\d+)"
    for paper, name, seed in re.findall(command, PAGE.read_text(encoding="utf-8")):
        yield find(paper, name), int(seed)


def models() -> dict[Run, list[str]]:
    """Return the models of all figures, each with the figures that show it."""
    found: dict[Run, list[str]] = {}
    for table, seed in figures():
        for run in plan_table(table, Choices("small", (seed,))).runs:
            found.setdefault(run, []).append(f"{table.paper} {table.name}")
    return found


def lines(folder: Path) -> Iterator[list]:
    """Yield the lines of the CSV file from the runs below an output folder of ``reproduce``."""
    yield ["run", "figures", "seed", "updates", *SCORES, "commit", "machine"]
    for run, shown in models().items():
        path = run.folder(folder) / RESULT
        if (result := read(path)) is None:
            raise UserError(f"{path}: is missing; give the figure's command to train the model")
        scores = [MEASURES[name].read(result) for name in SCORES]
        rounded = [None if score is None else round(score, 4) for score in scores]
        machine = result["hardware"]["processor"]
        yield [run.name, "; ".join(shown), run.seed, result["updates"], *rounded] + [
            result["versions"]["git_commit"],
            machine,
        ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m results.models", description=__doc__)
    parser.add_argument("folder", type=Path, help="output folder of diverse-mha reproduce")
    write_files({FILE: csv_text([*lines(parser.parse_args().folder)]).encode()})
    print(FILE)


if __name__ == "__main__":
    run_cli(main)
