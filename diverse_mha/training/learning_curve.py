"""Learning curves of several runs in one table and one plot: ``scripts/learning-curve.sh``.

Read from what fairseq logs at each validation, in its json or its simple format. The recipes of
configs/ leave that log in ``train.log`` beside the checkpoints; the output of any other run of
fairseq-train, kept in a file, does as well.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, called
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import printable, write_files
from diverse_mha.common.places import check_file
from diverse_mha.common.tables import csv_text
from diverse_mha.training.log import TRAIN_LOG, validations

COLUMNS = ("run", "epoch", "updates", "loss", "perplexity")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    parser = OneLineParser(
        prog=called("learning-curve"),
        allow_abbrev=False,
        description="Draw the validation perplexity of several runs against updates. Writes a "
        "table (CSV) and a plot (PNG).",
        epilog="example:\n  diverse-mha learning-curve runs/baseline runs/coda --output curves",
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
    parser.add_argument("--subset", default="valid", help="validation set (default: valid)")
    return parser


def without(words: Sequence[str], results: Iterable[Path]) -> list[str]:
    """Leave out what an earlier call wrote, which ``runs/*`` names beside the runs, and say so."""
    own = {path.resolve() for path in results}
    kept = [word for word in words if Path(word).resolve() not in own]
    if left_out := [word for word in words if word not in kept]:
        print(f"left out, for they are written here: {', '.join(left_out)}", file=sys.stderr)
    if not kept:
        raise UserError(f"{words[0]}: is where --output writes; name the runs, or another --output")
    return kept


def read_runs(words: Sequence[str], subset: str) -> dict[str, list[dict]]:
    """Read every run that the command line names, in its order.

    A run without a name is called after its folder; runs in folders of the same name, after
    their whole path.
    """
    given = []
    for word in words:
        name, separator, place = word.partition("=")
        if not separator or Path(word).exists():  # a run's folder may have = in its name
            name, place = None, word
        log = Path(place, TRAIN_LOG) if Path(place).is_dir() else Path(place)
        if not log.is_file():
            raise UserError(f"{log}: no such log; name a log file or the folder of a run")
        given.append((name, log))
    folders = [log.absolute().parent.name for name, log in given if name is None]
    runs: dict[str, list[dict]] = {}
    for name, log in given:
        if name is None:
            folder = log.absolute().parent.name
            name = folder if folders.count(folder) == 1 else str(log)
        name = printable(name)
        if not name or name in runs:
            raise UserError(f"{log}: the name {name!r} is empty or taken; give another as NAME=RUN")
        try:
            text = log.read_text(encoding="utf-8", errors="replace")
            runs[name] = validations(text.splitlines(), subset)
        except UserError as error:
            raise UserError(f"{log}: {error}") from None
        if not runs[name]:
            raise UserError(
                f"{log}: no validation on {subset!r} in it; check --subset, and that the run "
                f"logged as json or simple"
            )
        if any("ppl" not in point for point in runs[name]):
            raise UserError(
                f"{log}: the log has validations without ppl; its criterion reports none"
            )
    return runs


def table(runs: dict[str, list[dict]]) -> str:
    """Lay out the runs as CSV, a line for each validation."""
    rows = [
        (name, int(point["epoch"]), int(point["num_updates"]), point["loss"], point["ppl"])
        for name, points in runs.items()
        for point in points
    ]
    return csv_text([COLUMNS, *rows])


def plot(runs: dict[str, list[dict]]) -> bytes:
    """Draw the runs, perplexity on a logarithmic axis, and return a PNG."""
    try:
        import matplotlib
    except ImportError:
        raise UserError("matplotlib is missing: pip install matplotlib") from None
    from diverse_mha.analysis.figures.style import COLOURS, STYLE, Plot, drawn, new_figure

    with matplotlib.rc_context(STYLE):
        figure = new_figure(7, 4.5)
        axes = figure.add_subplot(xlabel="updates", ylabel="validation perplexity", yscale="log")
        axes.set_prop_cycle(color=COLOURS)
        for points in runs.values():
            updates = [point["num_updates"] for point in points]
            axes.plot(updates, [point["ppl"] for point in points], marker=".")
        axes.yaxis.set_major_formatter(matplotlib.ticker.LogFormatter())
        axes.yaxis.set_minor_formatter(matplotlib.ticker.LogFormatter(minor_thresholds=(2, 1)))
        axes.grid(alpha=0.3, which="both")
        # Given here, since a label of a line may not begin with _.
        axes.legend(axes.lines, list(runs))
    return drawn(Plot("learning-curve", "", "", figure), ("png",))["png"]


def main(words: Sequence[str]) -> int:
    """Write table and plot as the command line says, and return the exit code."""
    args = build_parser().parse_args(words)
    if args.output.endswith("/") or Path(args.output).is_dir():
        raise UserError(f"--output {args.output}: is a folder; give the beginning of a file name")
    results = {ending: Path(f"{args.output}.{ending}") for ending in ("csv", "png")}
    for path in results.values():
        check_file("--output", path)
    runs = read_runs(without(args.runs, results.values()), args.subset)
    width = max(map(len, runs))
    files = {results["csv"]: table(runs).encode(), results["png"]: plot(runs)}
    write_files(files)
    for name, points in runs.items():
        best = min(points, key=lambda point: (math.isnan(point["ppl"]), point["ppl"]))
        print(
            f"{name:{width}}  {len(points):3} validations, best perplexity "
            f"{best['ppl']:8.2f} at update {int(best['num_updates']):,}"
        )
    print(f"written: {' and '.join(map(str, files))}")
    return 0
