"""Curves of canonical correlations, falling from the first to the last."""

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.style import COLOURS, STYLE, Plot, new_figure
from diverse_mha.analysis.names import COMPONENT_TITLES

CAPTION = (
    "Canonical correlations between the leading directions of two heads' outputs, sorted (SVCCA, "
    "as in Figs. 2-4 of Yun et al. 2021), at the last layer measured of each component: the mean "
    "over the pairs of heads that have so many. Lower: the heads answer differently."
)
LINES = ("-", "--", ":")  # where there are more models than colours


def curves_of_models(results: list[dict]) -> Plot | None:
    """Draw a line for every model, at each component's last chosen layer; None without SVCCA."""
    panels: dict[str, dict] = {}
    for result in results:
        for component, entry in result["components"].items():
            curve = _curve(list(entry["layers"].values())[-1])
            if len(curve):
                panels.setdefault(component, {})[result["name"]] = curve
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
                axis.plot(np.arange(1, len(curve) + 1), curve, **looks[name])
            axis.set_title(COMPONENT_TITLES[component])
            axis.set_xlabel("number of the coefficient")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_yticks([0, 0.5, 1])
            axis.set_ylim(0, 1)
        axes[0].set_ylabel("canonical correlation")
        # Beside the panels: curves that hug the top leave no corner free.
        named = [name for name in looks if any(name in lines for lines in panels.values())]
        handles = [matplotlib.lines.Line2D([], [], **looks[name]) for name in named]
        figure.legend(handles, named, frameon=False, fontsize=8, loc="outside right upper")
    return Plot("svcca-curves-models", "Canonical correlations by model", CAPTION, figure)


def _curve(layer: dict) -> np.ndarray:
    """Return the mean of each coefficient over the pairs that have so many."""
    pairs = [values for values in (layer.get("svcca") or {}).get("coefficients", {}).values()]
    longest = max(map(len, pairs), default=0)
    return np.array([np.mean([x[n] for x in pairs if len(x) > n]) for n in range(longest)])
