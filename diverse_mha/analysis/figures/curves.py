"""Curves of canonical correlations, falling from the first to the last."""

import matplotlib
import numpy as np

from diverse_mha.analysis.collect import last_layer
from diverse_mha.analysis.figures.style import COLOURS, PAGE, STYLE, Plot, each_panel, new_figure
from diverse_mha.analysis.names import COMPONENT_TITLES, file_name

CAPTION = (
    "Canonical correlations between the leading directions of two heads' outputs, sorted "
    "(SVCCA, as in Figs. 2-4 of Yun et al. 2021); the thick line is the mean over the pairs of "
    "heads that have so many"
)
LOWER = " Lower: the heads answer differently."
COLUMNS = 6  # layers in a row
LINES = ("-", "--", ":")  # where there are more models than colours


def curves_of_layers(result: dict) -> Plot | None:
    """Draw a panel for every layer of a model; None without SVCCA or pairs of heads."""
    rows = []
    for component, entry in result["components"].items():
        curves = {number: _curves(layer) for number, layer in entry["layers"].items()}
        curves = {number: found for number, found in curves.items() if len(found)}
        panels = [(number, curves) for number in curves]
        rows += [(component, panels[i : i + COLUMNS]) for i in range(0, len(panels), COLUMNS)]
    if not rows:
        return None
    columns = max(len(panels) for _, panels in rows)
    width = min(2.2, (PAGE - 0.6) / columns)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(columns * width + 0.6, len(rows) * 1.6 + 0.4)
        axes = figure.subplots(len(rows), columns, squeeze=False, sharey=True)
        for axis, (number, curves), _ in each_panel(axes, [panels for _, panels in rows]):
            _panel(axis, number, curves)
        for axis, (component, _) in zip(axes[:, 0], rows, strict=True):
            axis.set_ylabel(COMPONENT_TITLES[component], fontsize=8)
        figure.supxlabel("number of the coefficient", fontsize=8)
        figure.supylabel("canonical correlation", fontsize=8)
    return Plot(
        f"svcca-curves-{file_name(result['name'])}",
        f"Canonical correlations by layer: {result['name']}",
        f"{CAPTION}, the band reaches from the lowest pair to the highest, and the thin grey "
        f"lines are the means of the component's other layers.{LOWER}",
        figure,
    )


def curves_of_models(results: list[dict]) -> Plot | None:
    """Draw a line for every model, at each component's last chosen layer; None without SVCCA."""
    panels: dict[str, dict] = {}
    for result in results:
        for component, entry in result["components"].items():
            curves = _curves(list(entry["layers"].values())[-1])
            if len(curves):
                panels.setdefault(component, {})[result["name"]] = np.nanmean(curves, axis=0)
    if not panels:
        return None
    looks = {
        result["name"]: {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": LINES[i // len(COLOURS) % len(LINES)],
            "linewidth": 1.6,
        }
        for i, result in enumerate(results)
    }
    with matplotlib.rc_context(STYLE):
        figure = new_figure(2.8 * len(panels) + 1.6, 2.9)
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (component, lines) in zip(axes, panels.items(), strict=True):
            for name, curve in lines.items():
                places = np.arange(1, len(curve) + 1)
                axis.plot(places, curve, **looks[name])
            axis.set_title(COMPONENT_TITLES[component])
            axis.set_xlabel("number of the coefficient")
            _axes(axis, max(map(len, lines.values())))
        axes[0].set_ylabel("canonical correlation")
        # Beside the panels: curves that hug the top leave no corner free.
        named = [name for name in looks if any(name in lines for lines in panels.values())]
        handles = [matplotlib.lines.Line2D([], [], **looks[name]) for name in named]
        figure.legend(handles, named, frameon=False, fontsize=8, loc="outside right upper")
    caption = f"{CAPTION} at the {last_layer(results)} layer of each component.{LOWER}"
    return Plot("svcca-curves-models", "Canonical correlations by model", caption, figure)


def _curves(layer: dict) -> np.ndarray:
    """Coefficients of every pair that has some, (pairs, k); NaN where it has fewer than others."""
    pairs = (layer.get("svcca") or {}).get("coefficients") or {}
    there = [values for values in pairs.values() if values]
    curves = np.full((len(there), max(map(len, there), default=0)), np.nan)
    for row, values in zip(curves, there, strict=True):
        row[: len(values)] = values
    return curves


def _panel(axis, chosen: str, curves: dict[str, np.ndarray]) -> None:
    for number, others in curves.items():
        if number != chosen:
            places = np.arange(1, others.shape[1] + 1)
            axis.plot(places, np.nanmean(others, axis=0), color="#bdbdbd", linewidth=0.7)
    own = curves[chosen]
    places = np.arange(1, own.shape[1] + 1)
    low, high = np.nanmin(own, axis=0), np.nanmax(own, axis=0)
    axis.fill_between(places, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
    axis.plot(places, np.nanmean(own, axis=0), color=COLOURS[0], linewidth=1.6)
    axis.set_title(f"layer {chosen}", fontsize=8)
    axis.tick_params(labelsize=7)
    _axes(axis, max(found.shape[1] for found in curves.values()))


def _axes(axis, count: int) -> None:
    """Ticks on whole coefficients, the first and the last among them."""
    step = max(-(-(count - 1) // 4), 1)
    axis.set_xticks([*range(1, max(count - step // 2, 1), step), count])
    axis.set_xlim(min(1, count - 0.5), max(count, 1.5))
    axis.set_yticks([0, 0.5, 1])
    axis.set_ylim(0, 1)
