"""Curves of canonical correlations, falling from the first to the last."""

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.style import (
    COLOURS,
    COMPONENT_TITLES,
    STYLE,
    Plot,
    file_name,
    new_figure,
)

CAPTION = (
    "Canonical correlations between the leading directions of two heads' outputs, sorted "
    "(SVCCA, as in Figs. 2-4 of Yun et al. 2021): the line is the mean over pairs of heads, the "
    "band reaches from the lowest pair to the highest. Lower: the heads answer differently."
)


def curves_of_layers(result: dict) -> Plot | None:
    """Draw a line for every layer of a model; None without SVCCA or pairs of heads."""
    panels = {
        component: {
            f"layer {number}": layer["svcca"]["coefficients"]
            for number, layer in entry["layers"].items()
            if _has_curves(layer)
        }
        for component, entry in result["components"].items()
    }
    shades = matplotlib.colormaps["viridis"]
    count = max((len(lines) for lines in panels.values()), default=0)
    colours = [shades(x) for x in np.linspace(0, 0.85, max(count, 1))]
    return _plot(
        f"svcca-curves-{file_name(result['name'])}",
        f"Canonical correlations by layer: {result['name']}",
        CAPTION,
        panels,
        colours,
    )


def curves_of_models(results: list[dict]) -> Plot | None:
    """Draw a line for every model, at the last layer of each component; None without SVCCA."""
    panels: dict[str, dict] = {}
    for result in results:
        for component, entry in result["components"].items():
            layer = list(entry["layers"].values())[-1]
            if _has_curves(layer):
                lines = panels.setdefault(component, {})
                lines[result["name"]] = layer["svcca"]["coefficients"]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(results))]
    caption = CAPTION + " At the last layer of each component."
    return _plot("svcca-curves-models", "Canonical correlations by model", caption, panels, colours)


def _has_curves(layer: dict) -> bool:
    curves = (layer.get("svcca") or {}).get("coefficients") or {}
    return any(curves.values())


def _plot(name: str, title: str, caption: str, panels: dict, colours: list) -> Plot | None:
    panels = {component: lines for component, lines in panels.items() if lines}
    if not panels:
        return None
    with matplotlib.rc_context(STYLE):
        figure = new_figure(2.9 * len(panels) + 0.4, 2.9)
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (component, lines) in zip(axes, panels.items(), strict=True):
            for (label, pairs), colour in zip(lines.items(), colours, strict=False):
                _draw(axis, pairs, label, colour)
            axis.set_title(COMPONENT_TITLES.get(component, component))
            axis.set_xlabel("number of the coefficient")
            axis.set_ylim(0, 1)
            axis.set_xlim(left=1)
        axes[0].set_ylabel("canonical correlation")
        axes[-1].legend(frameon=False, fontsize=8, loc="upper right")
    return Plot(name, title, caption, figure)


def _draw(axis, pairs: dict[str, list[float]], label: str, colour) -> None:
    shortest = min(len(values) for values in pairs.values())
    if not shortest:
        return
    curves = np.array([values[:shortest] for values in pairs.values()])
    places = np.arange(1, shortest + 1)
    axis.plot(places, curves.mean(axis=0), color=colour, linewidth=1.6, label=label)
    axis.fill_between(
        places, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.13, linewidth=0
    )
