"""Heat maps of every pair of heads, a map for every layer of every component."""

import math

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.style import (
    COMPONENT_TITLES,
    STYLE,
    Plot,
    file_name,
    new_figure,
)

COLUMNS = 6  # maps in a row
CELL = 1.75  # inches of a map

MEASURES = {
    "jsd": (
        "Jensen-Shannon divergence of heads",
        "Divergence between the attention distributions of two heads, in nats, summed over the "
        "queries of a sentence and averaged over sentences (Zheng et al. 2021, Figs. 2 and 4-6). "
        "Darker: the heads look at different places. The scale ends at ln 2 times the mean "
        "number of queries, where heads never share a position.",
        "YlGnBu",
    ),
    "cka": (
        "CKA of heads",
        "Linear centred kernel alignment between the outputs of two heads (Kornblith et al. "
        "2019; Yun et al. 2021). Darker: the heads answer alike. 1: alike up to rotation and "
        "scale.",
        "YlOrBr",
    ),
    "cka-rbf": (
        "CKA of heads, RBF kernel",
        "Centred kernel alignment with the RBF kernel (width: half the median distance), on a "
        "random sample of positions (Kornblith et al. 2019). Darker: the heads answer alike.",
        "YlOrBr",
    ),
    "svcca": (
        "SVCCA of heads",
        "Mean canonical correlation between the leading directions of the outputs of two heads "
        "(Raghu et al. 2017; Yun et al. 2021). Darker: the heads answer alike. 1: alike up to a "
        "linear map.",
        "YlOrBr",
    ),
}


def heat_maps(result: dict, measure: str) -> Plot | None:
    """Draw all pairs of heads of a model; None if there is nothing to draw.

    Args:
        result: of ``diverse_mha.analysis.run.analyze``.
        measure: a key of ``MEASURES`` that was measured.
    """
    panels = _panels(result, measure)
    if not panels or all(entry["heads"] < 2 for entry in result["components"].values()):
        return None
    title, caption, colours = MEASURES[measure]
    limit = _limit(result, measure)
    columns = max(len(row) for row in panels)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(columns * CELL + 1.0, len(panels) * (CELL + 0.25) + 0.1)
        axes = figure.subplots(len(panels), columns, squeeze=False)
        image = None
        for row, line in enumerate(panels):
            for column in range(columns):
                axis = axes[row, column]
                if column >= len(line):
                    axis.axis("off")
                    continue
                component, number, pairs, average = line[column]
                image = _draw(axis, pairs, limit, colours)
                label = "" if average is None else f", mean {average:.2f}"
                axis.set_title(f"layer {number}{label}", fontsize=8)
                if column == 0:
                    axis.set_ylabel(COMPONENT_TITLES.get(component, component), fontsize=8)
        bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02, aspect=40)
        bar.set_label("nats a sentence" if measure == "jsd" else "similarity", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
    name = f"{measure}-{file_name(result['name'])}"
    return Plot(name, f"{title}: {result['name']}", caption, figure)


def _panels(result: dict, measure: str) -> list[list[tuple]]:
    """Rows of maps: component, layer, pairs, mean over pairs."""
    rows = []
    for component, entry in result["components"].items():
        layers = [
            (component, number, np.array(layer[measure]["pairs"]), layer[measure]["mean"])
            for number, layer in entry["layers"].items()
            if layer.get(measure) is not None
        ]
        rows += [layers[i : i + COLUMNS] for i in range(0, len(layers), COLUMNS)]
    return rows


def _limit(result: dict, measure: str) -> float:
    """Upper end of the colour scale: the largest value that there could be."""
    if measure != "jsd":
        return 1.0
    rows = max(entry["positions"] for entry in result["components"].values())
    return math.log(2) * rows / max(result["sentences"], 1)


def _draw(axis, pairs: np.ndarray, limit: float, colours: str):
    heads = len(pairs)
    shown = np.where(np.eye(heads, dtype=bool), np.nan, pairs)  # the diagonal says nothing
    colour_map = matplotlib.colormaps[colours].with_extremes(bad="#ececec")
    image = axis.imshow(shown, cmap=colour_map, vmin=0, vmax=limit, interpolation="nearest")
    step = max(heads // 8, 1)
    ticks = list(range(0, heads, step))
    axis.set_xticks(ticks, [str(tick + 1) for tick in ticks], fontsize=7)
    axis.set_yticks(ticks, [str(tick + 1) for tick in ticks], fontsize=7)
    axis.tick_params(length=0, pad=2)
    for spine in axis.spines.values():
        spine.set_visible(False)
    if heads <= 8:
        size = 7 if heads <= 5 else 5
        for i in range(heads):
            for j in range(heads):
                if i != j:
                    dark = pairs[i, j] > 0.6 * limit
                    digits = f"{pairs[i, j]:.2f}" if limit <= 1 else f"{pairs[i, j]:.1f}"
                    axis.text(
                        j, i, digits.removeprefix("0") if heads > 5 and limit <= 1 else digits,
                        ha="center", va="center", fontsize=size,
                        color="white" if dark else "#333333",
                    )  # fmt: skip
    return image
