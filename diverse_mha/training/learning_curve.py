"""Learning curves of several runs in one table and one plot: ``scripts/learning-curve.sh``.

Read from what fairseq logs at each validation, in its json or its simple format. The recipes of
configs/ leave that log in ``train.log`` beside the checkpoints; the output of any other run of
fairseq-train, kept in a file, does as well.
"""

import argparse
import io
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, called
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_files
from diverse_mha.common.places import check_file
from diverse_mha.common.tables import csv_text
from diverse_mha.corpora.text import read_lines
from diverse_mha.training.log import TRAIN_LOG, json_entry

COLUMNS = ("run", "epoch", "updates", "loss", "perplexity")
_ON_SUBSET = re.compile(r"valid on '(.+)' subset")


@dataclass(frozen=True)
class Point:
    """One validation.

    Attributes:
        epoch: The epoch it was in, from 1.
        updates: Updates made so far.
        loss: The validation loss as logged, in bits per token.
        perplexity: The validation perplexity as logged, per token.
    """

    epoch: int
    updates: int
    loss: float
    perplexity: float


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = OneLineParser(
        prog=called("learning-curve"),
        allow_abbrev=False,
        description="Validation perplexity against updates, of several runs, as a table (CSV) "
        "and a plot (PNG).",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="[NAME=]RUN",
        help=f"a log of fairseq-train, or the folder of a run with its {TRAIN_LOG}",
    )
    parser.add_argument(
        "--output",
        default="learning-curve",
        metavar="STEM",
        help="write STEM.csv and STEM.png (default: learning-curve)",
    )
    parser.add_argument("--subset", default="valid", help="which validation (default: valid)")
    return parser


def read_points(lines: Iterable[str], subset: str = "valid") -> list[Point]:
    """Find the validations in a log of fairseq-train, in the order of their updates.

    A log may hold several attempts. Where a later one starts again from fewer updates, what it
    left behind is dropped, so that every number of updates has one point at most.

    Args:
        lines: The lines of the log; those that are no validation are passed over.
        subset: Name of the validation set.

    Raises:
        UserError: If a validation has no perplexity.
    """
    points: list[Point] = []
    for line in lines:
        found = _json_point(line, subset) or _simple_point(line, subset)
        if found is None:
            continue
        if "ppl" not in found:
            raise UserError("the log has validations without ppl; its criterion reports none")
        try:
            point = Point(
                epoch=int(found["epoch"]),
                updates=int(found["num_updates"]),
                loss=float(found["loss"]),
                perplexity=float(found["ppl"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(
                f"a validation cannot be read ({error}); give a log as fairseq-train wrote it"
            ) from None
        while points and points[-1].updates >= point.updates:
            points.pop()
        points.append(point)
    return points


def _json_point(line: str, subset: str) -> dict[str, str] | None:
    """Read ``{"epoch": 1, "valid_loss": "5.1", "valid_ppl": ...}``, whatever stands before it."""
    if f'"{subset}_num_updates"' not in line or (stats := json_entry(line)) is None:
        return None
    found = {"epoch": stats.get("epoch")}
    prefix = f"{subset}_"
    return found | {k.removeprefix(prefix): v for k, v in stats.items() if k.startswith(prefix)}


def _simple_point(line: str, subset: str) -> dict[str, str] | None:
    """Read ``epoch 001 | valid on 'valid' subset | loss 5.1 | ... | num_updates 60``."""
    fields = [field.strip() for field in line.split(" | ")]
    names = [match.group(1) for field in fields if (match := _ON_SUBSET.fullmatch(field))]
    if names != [subset]:
        return None
    found = dict(field.rsplit(" ", 1) for field in fields if " " in field)
    return found if {"epoch", "loss", "num_updates"} <= found.keys() else None


def without(words: Sequence[str], results: Iterable[Path]) -> list[str]:
    """Leave out what an earlier call wrote, which ``runs/*`` names beside the runs, and say so.

    Raises:
        UserError: If nothing else is named.
    """
    own = {path.resolve() for path in results}
    kept = [word for word in words if Path(word).resolve() not in own]
    if left_out := [word for word in words if word not in kept]:
        print(f"left out, for they are written here: {', '.join(left_out)}", file=sys.stderr)
    if not kept:
        raise UserError(f"{words[0]}: is where --output writes; name the runs, or another --output")
    return kept


def read_runs(words: Sequence[str], subset: str) -> dict[str, list[Point]]:
    """Read every run that the command line names, in its order.

    A run without a name is called after its folder; runs in folders of the same name, after
    their whole path.

    Raises:
        UserError: If a log is missing or holds no validation, or two runs have one name.
    """
    given = []
    for word in words:
        name, separator, place = word.partition("=")
        path = Path(place if separator else word)
        log = path / TRAIN_LOG if path.is_dir() else path
        if not log.is_file():
            raise UserError(f"{log}: no such log; name a log file or the folder of a run")
        given.append((name if separator else None, log))
    folders = [log.absolute().parent.name for name, log in given if name is None]
    runs: dict[str, list[Point]] = {}
    for name, log in given:
        if name is None:
            folder = log.absolute().parent.name
            name = folder if folders.count(folder) == 1 else str(log)
        if not name or name in runs:
            raise UserError(f"{log}: the name {name!r} is empty or taken; give another as NAME=RUN")
        try:
            runs[name] = read_points(read_lines(log), subset)
        except UserError as error:
            raise UserError(f"{log}: {error}") from None
        if not runs[name]:
            raise UserError(
                f"{log}: no validation on {subset!r} in it; check --subset, and that the run "
                f"logged as json or simple"
            )
    return runs


def table(runs: dict[str, list[Point]]) -> str:
    """Lay out the runs as CSV, a line for each validation."""
    rows = [
        (name, point.epoch, point.updates, point.loss, point.perplexity)
        for name, points in runs.items()
        for point in points
    ]
    return csv_text([COLUMNS, *rows])


def plot(runs: dict[str, list[Point]]) -> bytes:
    """Draw the runs, perplexity on a logarithmic axis, and return a PNG.

    Raises:
        UserError: If matplotlib is not installed.
    """
    # Importing fairseq made the root logger print all that matplotlib notes on its way.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogFormatter
    except ImportError:
        raise UserError("matplotlib is missing: pip install matplotlib") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in runs.items():
        updates = [point.updates for point in points]
        axes.plot(updates, [point.perplexity for point in points], marker=".", label=name)
    axes.set_xlabel("updates")
    axes.set_ylabel("validation perplexity")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 1)))
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    return image.getvalue()


def main(words: Sequence[str]) -> int:
    """Write table and plot as the command line says, and return the exit code."""
    args = build_parser().parse_args(words)
    results = {ending: Path(f"{args.output}.{ending}") for ending in ("csv", "png")}
    for path in results.values():
        check_file("--output", path)
    runs = read_runs(without(args.runs, results.values()), args.subset)
    width = max(map(len, runs))
    files = {results["csv"]: table(runs).encode(), results["png"]: plot(runs)}
    write_files(files)
    for name, points in runs.items():
        best = min(points, key=lambda point: point.perplexity)
        print(
            f"{name:{width}}  {len(points):3} validations, best perplexity "
            f"{best.perplexity:8.2f} at update {best.updates:,}"
        )
    print(f"written: {' and '.join(map(str, files))}")
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
