"""Draws the two pictures of the results: learning curves, and quality against head diversity."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import SymmetricalLogLocator
from PIL import Image

from diverse_mha.analysis.figures import COLOURS, MARKERS, STYLE, Plot, new_figure, render_plot
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
#: Bits; a row that never learns leaves the panel at the top.
CURVES_FROM_TO = (-0.4, 1.0)
_GREY = "#bbbbbb"


def draw(rows: Rows, systems: Sequence[System], folder: Path) -> list[Path]:
    """Write both pictures; ``systems`` are the rows compared with the first by BLEU."""
    with matplotlib.rc_context(STYLE):
        figures = {
            "study-curves": learning_curves(rows),
            "study-diversity": quality_against_diversity(rows, systems),
        }
    files = {
        folder / f"{name}.png": _palette(render_plot(Plot(name, name, "", figure), ("png",))["png"])
        for name, figure in figures.items()
    }
    write_files(files)
    return [*files]


def _palette(png: bytes) -> bytes:
    """Write a picture with 32 colours, in a third of the bytes."""
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(32, dither=Image.Dither.NONE)
    picture.save(small, "png", optimize=True)
    return small.getvalue()


def learning_curves(rows: Rows) -> Figure:
    """Draw a panel a row: how far each seed's validation loss is from the first row's mean."""
    seen: dict[int, list[float]] = {}
    for validation in (v for kept in next(iter(rows.values())) for v in kept.validation):
        seen.setdefault(validation["num_updates"], []).append(validation["nll_loss"])
    mean = {updates: sum(losses) / len(losses) for updates, losses in seen.items()}
    columns = min(6, len(rows))
    figure = new_figure(1.55 * columns, 1.5 * math.ceil(len(rows) / columns) + 0.4)
    axes = _panels(figure, len(rows), columns, sharex=True)
    for number, (axis, label) in enumerate(zip(axes, rows, strict=True)):
        axis.axhline(0, color=_GREY, linewidth=0.8, zorder=1)
        for kept in rows[label]:
            points = [v for v in kept.validation if v["num_updates"] in mean]
            apart = [v["nll_loss"] - mean[v["num_updates"]] for v in points]
            colour = COLOURS[number % 8] if number else "black"
            axis.plot([v["num_updates"] for v in points], apart, color=colour, linewidth=0.9)
        axis.set_title(label, fontsize=6.5)
        axis.tick_params(labelbottom=number >= len(rows) - columns, labelsize=7)
    axes[0].set_ylim(*CURVES_FROM_TO)
    figure.supxlabel("updates", fontsize=8)
    figure.supylabel("validation nll beyond the baseline's mean, bits per token", fontsize=8)
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
