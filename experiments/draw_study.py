"""Draws the two figures of a study: learning curves, and quality against head diversity."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.ticker import SymmetricalLogLocator

from diverse_mha.analysis.figures.style import COLOURS, MARKERS, STYLE, Plot, new_figure
from diverse_mha.common.files import write_text
from diverse_mha.common.tables import csv_text
from diverse_mha.evaluation.comparison.systems import System
from diverse_mha.training.log import TRAIN_LOG, read_log
from experiments.experiments import Row, Table
from experiments.fill import Filled
from experiments.plan import Run

#: Measures of heads on the horizontal axes.
_AXES = {
    "heads.svcca": "SVCCA (higher = more alike)",
    "heads.cka": "CKA (higher = more alike)",
    "heads.exp_d.output": "exp(D) Out. (higher = differ more)",
    "heads.jsd": "JSD, nats (higher = differ more)",
}
_GREY = "#bbbbbb"
#: Differences from here on are drawn on a logarithmic scale.
RUINED = 10.0
Curves = list[list[tuple[int, float]]]  # updates and validation score of a row's runs


def draw_study(
    table: Table,
    filled: Filled,
    finished: Mapping[Row, Sequence[Run]],
    systems: Sequence[System],
    out: Path,
    folder: Path,
) -> list[Plot]:
    """Draw a study's figures, and write the learning curves as CSV into ``folder``.

    Finished runs lie below ``out``. ``systems`` are the compared rows, the baseline first; it may
    be empty.
    """
    curves = {
        row: [_curve(run.folder(out) / TRAIN_LOG) for run in runs]
        for row, runs in finished.items()
        if runs
    }
    points = [
        (row.label, run.seed, updates, f"{value:.4f}")
        for row, found in curves.items()
        for run, curve in zip(finished[row], found, strict=True)
        for updates, value in curve
    ]
    write_text(folder / "curves.csv", csv_text([("row", "seed", "updates", "value"), *points]))
    with matplotlib.rc_context(STYLE):
        plots = _learning_curves(table, curves), _quality_against_diversity(table, filled, systems)
    return [plot for plot in plots if plot is not None]


def _curve(log: Path) -> list[tuple[int, float]]:
    """Return updates and validation scores: nll in bits, or accuracy in percent."""
    points = []
    for entry in read_log(log)["validation"]:
        # With label smoothing the loss is another thing.
        nll = entry.get("nll_loss", entry.get("loss"))
        value = nll if "ppl" in entry else entry.get("accuracy")
        if value is not None:
            points.append((int(entry["num_updates"]), value))
    return points


def _learning_curves(table: Table, by_row: Mapping[Row, Curves]) -> Plot | None:
    """Draw a panel a row: the row in colour, the baseline in black, all others in grey."""
    by_row = {row: [curve for curve in curves if curve] for row, curves in by_row.items()}
    rows = [row for row, curves in by_row.items() if curves]
    if not rows:
        return None
    baseline = next((row for row in rows if row.name == table.baseline), None)
    columns = min(4, len(rows))
    lines = math.ceil(len(rows) / columns)
    figure = new_figure(2.3 * columns, 1.9 * lines + 0.6)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for number, (axis, row) in enumerate(zip(axes.flat, rows, strict=False)):
        for other in rows:
            _lines(axis, by_row[other], color=_GREY, linewidth=0.5, zorder=1)
        if baseline is not None:
            _lines(axis, by_row[baseline], color="black", linewidth=0.9, zorder=2)
        if row is not baseline:
            _lines(axis, by_row[row], color=COLOURS[number % 8], linewidth=1.1, zorder=3)
        axis.set_title(row.label, fontsize=8)
    for axis in list(axes.flat)[len(rows) :]:
        axis.set_visible(False)
    for axis in list(axes.flat)[len(rows) - columns : len(rows)]:
        axis.tick_params(labelbottom=True)  # also where the one below it is not shown
    accuracy = table.tested == "accuracy"
    values = [value for row in rows for curve in by_row[row] for _, value in curve]
    ends = [curve[-1][1] for row in rows for curve in by_row[row]]
    if not accuracy and max(values) > 2 * max(ends):
        # The first validations would compress the rest.
        axes.flat[0].set_ylim(0.97 * min(values), 1.25 * max(ends))
    figure.supxlabel("updates", fontsize=9)
    figure.supylabel(
        "validation accuracy, %" if accuracy else "validation nll, bits per token", fontsize=9
    )
    caption = (
        "Validation over training, a line a seed: the row in colour, the baseline in black, all "
        "other rows in grey."
    )
    return Plot("learning-curves", "Learning curves", caption, figure)


def _look(number: int, baseline: bool) -> dict[str, str]:
    """Return a look for row ``number``, unique among the first 72."""
    colour = "black" if baseline else COLOURS[number % 8]
    # Eight colours and nine markers; hollow from the second time round the colours.
    fill = colour if number < 8 else "white"
    return {"fmt": MARKERS[number % 9], "color": colour, "markerfacecolor": fill}


def _lines(axis, curves: Curves, **style) -> None:
    for curve in curves:
        axis.plot(*zip(*curve, strict=True), **style)


def _quality_against_diversity(
    table: Table, filled: Filled, systems: Sequence[System]
) -> Plot | None:
    """Draw the difference from the baseline, with its interval, against each measure of heads."""
    differences = {one.name: one.measures[table.tested].difference for one in systems}
    heads = {
        row: {number.measure: number.mean for number in numbers if number is not None}
        for row, numbers in filled
        if row.label in differences
    }
    measures = [name for name in _AXES if any(h.get(name) is not None for h in heads.values())]
    if not measures:
        return None
    columns = min(2, len(measures))
    lines = math.ceil(len(measures) / columns)
    figure = new_figure(3.1 * columns + 2.0, 2.6 * lines + 0.5)
    axes = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for axis in list(axes.flat)[len(measures) :]:
        axis.set_visible(False)
    shown = {}  # a handle a row: a row may lack a measure, and be missing from its panel
    for axis, name in zip(axes.flat, measures, strict=False):
        axis.axhline(0, color=_GREY, linewidth=0.8, zorder=1)
        for number, row in enumerate(heads):
            place, found = heads[row].get(name), differences[row.label]
            if place is None:
                continue
            value = found.value if found else 0.0
            low, high = found and found.interval or (value, value)
            shown[row] = axis.errorbar(
                place,
                value,
                yerr=[[value - low], [high - value]],
                **_look(number, row.name == table.baseline),
                markersize=5,
                elinewidth=0.7,
                label=row.label + ("" if not found or found.over_seeds else " †"),
            )
        axis.set_xlabel(_AXES[name], fontsize=8)
    ruined = any(found and abs(found.value) > RUINED for found in differences.values())
    if ruined:
        # One such row would press all others into a line.
        axes.flat[0].set_yscale("symlog", linthresh=1.0)
        axes.flat[0].yaxis.set_major_locator(
            SymmetricalLogLocator(base=10.0, linthresh=1.0, subs=(1.0, 3.0))
        )
        axes.flat[0].yaxis.set_major_formatter("{x:g}")
    low, high = axes.flat[0].get_ylim()
    axes.flat[0].set_ylim(min(low, -0.1), max(high, 0.1))  # where nothing differs, say so
    handles = [shown[row] for row in heads if row in shown]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=7)
    lower = ", lower is better" if table.tested == "perplexity" else ""
    figure.supylabel(f"difference in {table.tested} to the baseline{lower}", fontsize=9)
    caption = (
        f"Difference in {table.tested} to the baseline with its 95 % interval, not corrected for "
        "the number of rows, against how alike the heads of each row are; means over seeds. † of "
        "too few seeds: the interval is about these models only."
        + (" The scale is linear from -1 to 1, logarithmic beyond." if ruined else "")
    )
    return Plot("quality-against-diversity", "Quality against diversity", caption, figure)
