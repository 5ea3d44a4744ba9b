"""Accuracy against the number of operators, a line a model: Li et al. 2021, Fig. 4.

``python -m diverse_mha.corpora.logic.plot NAME=RESULT.json ... --output FOLDER`` reads what
``scripts/evaluate-classifier.sh`` wrote and writes the table (Markdown and CSV) and the plot
(PNG and SVG).
"""

import io
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_files
from diverse_mha.common.places import check_folder
from diverse_mha.common.tables import csv_text, markdown_table

_SUBSET = re.compile(r"test(\d+)")
_MARKERS = "os^Dv*PX"
# Okabe and Ito's colours, which colour-blind readers tell apart; their yellow is too pale.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


class Point(NamedTuple):
    """One length: accuracy and share of the most frequent relation in percent, and pairs."""

    accuracy: float
    pairs: int
    majority: float


Results = dict[str, dict[int, Point]]  # by model and length


def read_result(path: Path) -> dict[int, Point]:
    """Read what a result file says of each length.

    Raises:
        UserError: if it is not the result of an evaluation with splits test1, test2, ...
    """
    try:
        subsets = json.loads(path.read_text(encoding="utf-8"))["subsets"]
        found = {
            int(match.group(1)): Point(
                float(result["accuracy"]), int(result["examples"]), float(result["majority"])
            )
            for name, result in subsets.items()
            if (match := _SUBSET.fullmatch(name))
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        found = {}
    if not found:
        raise UserError(
            f"{path}: no accuracies of test1, test2, ... in it; give what "
            "scripts/evaluate-classifier.sh wrote for the logical pairs"
        )
    return dict(sorted(found.items()))


def read_named(words: Sequence[str]) -> Results:
    """Read results given as NAME=FILE, or as FILE, which is named by its folder.

    Raises:
        UserError: for a file that is missing, a repeated name, or other test sets than the first.
    """
    results: Results = {}
    for word in words:
        name, equals, file = word.partition("=")
        path = Path(file if equals else word)
        if not path.is_file():
            raise UserError(f"{path}: no such result file; give one of evaluate-classifier.sh")
        name = name if equals else path.absolute().parent.name
        if name in results:
            raise UserError(f"{word}: a second model called {name}; give NAME=FILE")
        result = read_result(path)
        for first, others in results.items():
            sizes = [{n: point[1:] for n, point in r.items()} for r in (others, result)]
            if sizes[0] != sizes[1]:
                raise UserError(f"{path}: not over the same test pairs as {first}; evaluate again")
        results[name] = result
    return results


def _rows(results: Results) -> list[list[str]]:
    """The table as cells: a row a length, a column a model, then the means over pairs."""
    first = next(iter(results.values()))
    rows = [["operators", "pairs", "most frequent relation", *results]]
    parts = [[n] for n in first]
    parts += [[n for n in first if n <= 6], [n for n in first if n > 6], list(first)]
    names = [*map(str, first), "1-6", "7-12", "all"]
    for name, lengths in zip(names, parts, strict=True):
        if not lengths:
            continue
        count = sum(first[n].pairs for n in lengths)
        columns = [{n: point.majority for n, point in first.items()}]
        columns += [{n: p.accuracy for n, p in result.items()} for result in results.values()]
        means = (sum(column[n] * first[n].pairs for n in lengths) / count for column in columns)
        rows.append([name, str(count), *(f"{mean:.2f}" for mean in means)])
    return rows


def markdown(results: Results) -> str:
    """Write the table as Markdown, accuracies in percent."""
    head, *rest = _rows(results)
    return markdown_table(head, rest)


def csv(results: Results) -> str:
    """Write the rows of single lengths as comma-separated values."""
    head, *rest = _rows(results)
    lines = [head, *(row for row in rest if row[0].isdecimal())]
    return csv_text(lines)


def draw(results: Results) -> dict[str, bytes]:
    """Draw the plot as a PNG and as an SVG, by their endings."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq lets all loggers speak
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "logic"  # the same results give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    first = next(iter(results.values()))
    lengths = list(first)
    axes.axvline(6.5, color="#999999", linestyle=":", linewidth=1)
    for number, (name, result) in enumerate(results.items()):
        axes.plot(
            lengths,
            [result[n].accuracy for n in lengths],
            label=name,
            marker=_MARKERS[number % len(_MARKERS)],
            color=_COLOURS[number % len(_COLOURS)],
            markersize=5,
            linewidth=1.5,
        )
    majority = [first[n].majority for n in lengths]
    label = "most frequent relation"
    axes.plot(lengths, majority, "--", color="#999999", linewidth=1, label=label)
    axes.set_xticks(lengths)
    axes.set_xlabel("operators (longer than 6: not in the training data)")
    axes.set_ylabel("accuracy, %")
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False)
    drawn = {ending: io.BytesIO() for ending in ("png", "svg")}
    for ending, buffer in drawn.items():
        # Without the date, for the same reason.
        metadata = {"Date": None} if ending == "svg" else None
        figure.savefig(buffer, format=ending, dpi=150, metadata=metadata)
    pyplot.close(figure)
    return {ending: buffer.getvalue() for ending, buffer in drawn.items()}


def write_all(results: Results, folder: Path) -> list[Path]:
    """Write table and plot into a folder, all files or none; return their paths."""
    texts = {"md": markdown(results).encode(), "csv": csv(results).encode()}
    contents = texts | draw(results)
    files = {folder / f"logic.{ending}": content for ending, content in contents.items()}
    write_files(files)
    return list(files)


def main(argv: Sequence[str] | None = None) -> None:
    """Write table and plot of the results that the command line names."""
    parser = OneLineParser(
        prog="python -m diverse_mha.corpora.logic.plot",
        description="Draw accuracy against the number of operators, a line a model.",
    )
    parser.add_argument(
        "results",
        nargs="+",
        metavar="[NAME=]RESULT.json",
        help="what scripts/evaluate-classifier.sh wrote; default name: that of its folder",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="where table and plot go"
    )
    args = parser.parse_args(argv)
    check_folder("--output", args.output)
    results = read_named(args.results)
    print(markdown(results), end="")
    for path in write_all(results, args.output):
        print(f"written: {path}")


if __name__ == "__main__":
    run_cli(main)
