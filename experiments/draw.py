"""Draws the two pictures of the results: learning curves, and quality against head diversity."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import SymmetricalLogLocator

from diverse_mha.analysis.figures.style import COLOURS, MARKERS, STYLE, Plot, drawn, new_figure
from diverse_mha.common.files import write_files
from diverse_mha.evaluation.comparison.systems import System
from experiments.packed import HEADS, Kept

Rows = Mapping[str, Sequence[Kept]]  # by label, the baseline first
#: Measures of heads on the horizontal axes.
AXES = {
    "svcca": "SVCCA (higher = more alike)",
    "cka": "CKA (higher = more alike)",
    "exp_d.output": "exp(D) Out. (higher = differ more)",
    "jsd": "JSD, nats (higher = differ more)",
}
_GREY = "#bbbbbb"


def draw(rows: Rows, systems: Sequence[System], folder: Path) -> list[Path]:
    """Write both pictures; ``systems`` are the rows compared with the first by BLEU."""
    with matplotlib.rc_context(STYLE):
        figures = {
            "study-curves": learning_curves(rows),
            "study-diversity": quality_against_diversity(rows, systems),
        }
    files = {
        folder / f"{name}.png": drawn(Plot(name, name, "", figure), ("png",))["png"]
        for name, figure in figures.items()
    }
    write_files(files)
    return [*files]


def learning_curves(rows: Rows) -> Figure:
    """Draw a panel a row: the row in colour, the first in black, all others in grey."""
    lines = {
        label: [
            ([v["num_updates"] for v in kept.validation], [v["nll_loss"] for v in kept.validation])
            for kept in runs
        ]
        for label, runs in rows.items()
    }
    columns = min(4, len(rows))
    figure = new_figure(2.3 * columns, 1.9 * math.ceil(len(rows) / columns) + 0.6)
    axes = _panels(figure, len(rows), columns, sharex=True)
    for number, (axis, label) in enumerate(zip(axes, rows, strict=True)):
        others = [line for row in rows for line in lines[row]]
        for row, style in (
            (others, {"color": _GREY, "linewidth": 0.5}),
            (lines[next(iter(rows))], {"color": "black", "linewidth": 0.9}),
            (lines[label] if number else [], {"color": COLOURS[number % 8], "linewidth": 1.1}),
        ):
            for line in row:
                axis.plot(*line, **style)
        axis.set_title(label, fontsize=8)
        axis.tick_params(labelbottom=number >= len(rows) - columns)
    values = [value for _, curve in others for value in curve]
    # The first validations would compress the rest.
    axes[0].set_ylim(0.97 * min(values), 1.25 * max(curve[-1] for _, curve in others))
    figure.supxlabel("updates", fontsize=9)
    figure.supylabel("validation nll, bits per token", fontsize=9)
    return figure


def quality_against_diversity(rows: Rows, systems: Sequence[System]) -> Figure:
    """Draw the difference in BLEU, with its interval, against each measure of heads."""
    figure = new_figure(8.2, 5.7)
    axes, handles = _panels(figure, len(AXES), 2), []
    for axis, name in zip(axes, AXES, strict=True):
        axis.axhline(0, color=_GREY, linewidth=0.8, zorder=1)
        axis.set_xlabel(AXES[name], fontsize=8)
        place, handles = HEADS.index(name), []
        for number, one in enumerate(systems):
            found, runs = one.measures["BLEU"].difference, rows[one.name]
            value = found.value if found else 0.0
            low, high = found and found.interval or (value, value)
            colour = COLOURS[number % 8] if number else "black"
            handles.append(
                axis.errorbar(
                    sum(kept.heads[place] for kept in runs) / len(runs),
                    value,
                    yerr=[[value - low], [high - value]],
                    fmt=MARKERS[number % 9],
                    color=colour,
                    # Eight colours and nine markers; hollow from the second time round.
                    markerfacecolor=colour if number < 8 else "white",
                    markersize=5,
                    elinewidth=0.7,
                    label=one.name + ("" if not found or found.over_seeds else " †"),
                )
            )
    # A row that never learnt would press all others into a line.
    axes[0].set_yscale("symlog", linthresh=1.0)
    ticks = SymmetricalLogLocator(base=10.0, linthresh=1.0, subs=(1.0, 3.0))
    axes[0].yaxis.set_major_locator(ticks)
    axes[0].yaxis.set_major_formatter("{x:g}")
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=7)
    figure.supylabel("difference in BLEU to the baseline", fontsize=9)
    return figure


def _panels(figure: Figure, count: int, columns: int, **shared) -> list:
    """Return the axes of ``count`` panels with one scale of values."""
    lines = math.ceil(count / columns)
    axes = figure.subplots(lines, columns, sharey=True, squeeze=False, **shared).flat
    for axis in axes[count:]:
        axis.set_visible(False)
    return list(axes[:count])
