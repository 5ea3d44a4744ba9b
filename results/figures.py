"""Draws the pictures of the results.

They are learning curves, quality against the heads' diversity, gain by the number of heads, and
quality at held CKA.
"""

import csv
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import SymmetricalLogLocator

from diverse_mha.analysis.figures import (
    COLOURS,
    MARKERS,
    STYLE,
    Plot,
    fewer_colours,
    new_figure,
    render_plot,
)
from diverse_mha.common.files import write_files
from diverse_mha.evaluation.comparison.systems import System
from experiments.figures import look
from results import trends
from results.archive import CURVES
from results.published import TO_THE_END, Rows, Study

#: Measures of heads on the horizontal axes.
AXES = {
    "svcca": "SVCCA (higher = more alike)",
    "cka": "CKA (higher = more alike)",
    "exp_d_output": "exp(D) Out. (higher = differ more)",
    "jsd": "JSD, nats (higher = differ more)",
}
#: Limits of the vertical axis, in bits. The curve of a row that never learns leaves the panel.
CURVES_FROM_TO = (-0.4, 1.0)
_GREY = "#bbbbbb"


def draw(study: Study, folder: Path) -> list[Path]:
    """Write all pictures."""
    logging.disable(logging.WARNING)  # fairseq enables all loggers, and matplotlib logs much
    rows = study.rows(TO_THE_END)
    with matplotlib.rc_context(STYLE):
        figures = {
            "study-curves": learning_curves(rows),
            "study-diversity": quality_against_diversity(rows, study.compare(rows)),
            "study-heads": gains_by_heads(study.rows(trends.OF_HEAD_COUNTS)),
            "study-similarity": quality_at_held_cka(study.rows(trends.OF_HELD), study),
        }
    files = {
        folder / f"{name}.png": fewer_colours(
            render_plot(Plot(name, name, "", figure), ("png",))["png"], 32
        )
        for name, figure in figures.items()
    }
    write_files(files)
    return [*files]


def learning_curves(rows: Rows) -> Figure:
    """Draw a panel for each row: validation loss by seed, minus the first row's mean loss."""
    curves: dict[str, dict[int, float]] = {}  # run -> updates -> loss
    with CURVES.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            points = curves.setdefault(line["run"], {})
            points[int(line["num_updates"])] = float(line["nll_loss"])
    base = [curves[run.values["run"]] for run in next(iter(rows.values()))]
    mean = {n: fmean(curve[n] for curve in base if n in curve) for curve in base for n in curve}
    columns = min(6, len(rows))
    figure = new_figure(1.55 * columns, 1.5 * math.ceil(len(rows) / columns) + 0.4)
    axes = _panels(figure, len(rows), columns, sharex=True)
    for number, (axis, label) in enumerate(zip(axes, rows, strict=True)):
        axis.axhline(0, color=_GREY, linewidth=0.8, zorder=1)
        for run in rows[label]:
            differences = {
                n: loss - mean[n] for n, loss in curves[run.values["run"]].items() if n in mean
            }
            colour = COLOURS[number % 8] if number else "black"
            axis.plot([*differences], [*differences.values()], color=colour, linewidth=0.9)
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
        handles = []
        for number, one in enumerate(systems):
            test, runs = one.measures["BLEU"].difference, rows[one.name]
            value = test.value if test else 0.0
            low, high = test and test.interval or (value, value)
            colour = COLOURS[number % 8] if number else "black"
            handles.append(
                axis.errorbar(
                    fmean(run[name] for run in runs),
                    value,
                    yerr=[[value - low], [high - value]],
                    fmt=MARKERS[number % 9],
                    color=colour,
                    # Eight colours and nine markers; hollow from the second time round.
                    markerfacecolor=colour if number < 8 else "white",
                    markersize=5,
                    elinewidth=0.7,
                    label=one.name + ("" if not test or test.over_seeds else " †"),
                )
            )
    # Otherwise a row that never learns would compress all other rows into a line.
    axes[0].set_yscale("symlog", linthresh=1.0)
    ticks = SymmetricalLogLocator(base=10.0, linthresh=1.0, subs=(1.0, 3.0))
    axes[0].yaxis.set_major_locator(ticks)
    axes[0].yaxis.set_major_formatter("{x:g}")
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=7)
    figure.supylabel("difference in BLEU to the baseline", fontsize=9)
    return figure


def gains_by_heads(rows: Rows) -> Figure:
    """Draw each method's gain over the baseline with as many heads, and the baseline itself."""
    figure = new_figure(8.2, 5.2)
    labels = ("BLEU", "validation loss, bits")
    panels = figure.subplots(2, 2, sharex=True)
    for row, (column, *_) in enumerate(trends.SCORES.values()):
        (axis, beside), text = panels[row], labels[row]
        axis.axhline(0, color=_GREY, linewidth=0.8, zorder=1)
        for number, (method, gains) in enumerate(trends.gains_of(rows, column).items()):
            means = [fmean(values) for values in gains.values()]
            axis.plot([*gains], means, label=method, **look(number))
        axis.set_ylabel(f"{text}, less the baseline's", fontsize=8)
        own = {
            int(label.split()[0]): [run[column] for run in runs]
            for label, runs in rows.items()
            if label.endswith(": Baseline") and "width" not in label
        }
        own = dict(sorted(own.items()))
        means = [fmean(scores) for scores in own.values()]
        beside.plot([*own], means, color="black", marker="o", markersize=4)
        beside.set_ylabel(f"{text}, of the baseline", fontsize=8)
        axis.set_xscale("log", base=2)
        axis.set_xticks([*own], [*own])
    for axis in panels[1]:
        axis.set_xlabel("heads, model width 128", fontsize=8)
    panels[0][0].legend(frameon=False, fontsize=7)
    _caption(figure, rows, "")
    return figure


def quality_at_held_cka(rows: Rows, study: Study) -> Figure:
    """Draw validation loss and BLEU of runs by the CKA at which they ended."""
    figure = new_figure(8.2, 3.2)
    for axis, (column, *_) in zip(
        figure.subplots(1, 2), reversed(trends.SCORES.values()), strict=True
    ):
        for label, runs in rows.items():
            ends = [fmean(trends.cka_of(study, run)) for run in runs]
            is_held = trends.target_of(runs[0]) is not None
            axis.plot(
                ends,
                [run[column] for run in runs],
                color=COLOURS[0] if is_held else "black",
                marker="o" if is_held else "*",
                markersize=5 if is_held else 9,
                linestyle="none",
                label=None if is_held else f"{label}, CKA not held",
            )
        points = trends.held_points(rows, study, column)
        x = [min(x for x, _ in points), max(x for x, _ in points)]
        fine = np.linspace(*x, 200)
        fitted = np.polyval(np.polyfit(*zip(*points, strict=True), 2), fine)
        axis.plot(2**fine, fitted, color=COLOURS[0], linewidth=0.9, label="fitted parabola")
        axis.set_xscale("log", base=2)
        axis.set_xticks([0.05, 0.1, 0.2, 0.4, 0.8], ["0.05", "0.1", "0.2", "0.4", "0.8"])
        axis.set_xlabel("CKA between heads (higher = more alike)", fontsize=8)
        axis.set_ylabel("validation loss, bits per token" if column != "sacrebleu" else "BLEU")
    figure.axes[0].legend(frameon=False, fontsize=7)
    _caption(figure, rows, " Points: the CKA that a model ended with; parabola: over the targets.")
    return figure


def _caption(figure: Figure, rows: Rows, more: str) -> None:
    """Write corpus, recipe and seeds of the rows below the panels."""
    seeds = sorted({run.seed for runs in rows.values() for run in runs})
    text = f"Multi30k De-En, recipe multi30k_small, seed {', '.join(map(str, seeds))}.{more}"
    figure.supxlabel(text, fontsize=6, color="#555555")


def _panels(figure: Figure, count: int, columns: int, **shared) -> list:
    """Return the axes of ``count`` panels with one scale of values."""
    lines = math.ceil(count / columns)
    axes = figure.subplots(lines, columns, sharey=True, squeeze=False, **shared).flat
    for axis in axes[count:]:
        axis.set_visible(False)
    return list(axes[:count])
