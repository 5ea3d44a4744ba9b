"""A map of every head of a model by layer and component: how much the model needs it."""

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.style import STYLE, Plot, new_figure, side_bar
from diverse_mha.analysis.importance import ABLATION, GRADIENT
from diverse_mha.analysis.names import COMPONENT_TITLES, file_name

MEASURES = {
    ABLATION: (
        "Importance of heads",
        "rise of the loss, bits a token",
        "How much the loss rises when a head's output is replaced before the aggregation (Michel "
        "et al. 2019; Voita et al. 2019). Darker: the model needs the head more. Colours grow with "
        "the square root; heads whose loss falls are white.",
    ),
    GRADIENT: (
        "Importance of heads by gradient",
        "|gradient|, bits a token",
        "Mean over sentences of the absolute gradient of the loss by a gate on the head (Michel et "
        "al. 2019, Eq. 2). Darker: the model needs the head more. Colours grow with the square "
        "root.",
    ),
}
MOST = 12  # heads, up to which the cells have numbers


def importance_map(result: dict, measure: str) -> Plot:
    """Draw a row a layer and a column a head for every component.

    ``result`` is of ``diverse_mha.analysis.run.analyze``, ``measure`` one of ``MEASURES`` that was
    measured.
    """
    title, label, caption = MEASURES[measure]
    grids = {
        component: np.array([layer[measure]["heads"] for layer in entry["layers"].values()])
        for component, entry in result["components"].items()
    }
    end = max(max(float(grid.max()) for grid in grids.values()), 1e-12)
    with matplotlib.rc_context(STYLE):
        width = sum(max(0.42 * grid.shape[1], 1.6) + 0.4 for grid in grids.values()) + 1.0
        figure = new_figure(width, max(0.3 * max(map(len, grids.values())) + 1.0, 2.4))
        axes = figure.subplots(
            1, len(grids), squeeze=False, width_ratios=[grid.shape[1] for grid in grids.values()]
        )[0]
        for axis, (component, grid) in zip(axes, grids.items(), strict=True):
            image = axis.imshow(
                np.sqrt(grid.clip(0)), vmin=0, vmax=end**0.5, cmap="YlOrBr", aspect="auto"
            )
            layers = list(result["components"][component]["layers"])
            axis.set_yticks(range(len(layers)), layers, fontsize=7)
            step = -(-grid.shape[1] // MOST)
            heads = range(0, grid.shape[1], step)
            axis.set_xticks(heads, [str(head + 1) for head in heads], fontsize=7)
            axis.tick_params(length=0)
            axis.set_title(COMPONENT_TITLES[component], fontsize=8)
            axis.set_xlabel("head", fontsize=8)
            if grid.shape[1] <= MOST:
                _numbers(axis, grid, end)
        axes[0].set_ylabel("layer", fontsize=8)
        side_bar(image, axes, label)
        ticks = np.linspace(0, end**0.5, 5)
        bar = figure.axes[-1]
        bar.set_yticks(ticks, [f"{tick**2:.2g}" for tick in ticks])
    return Plot(
        f"{measure}-{file_name(result['name'])}", f"{title}: {result['name']}", caption, figure
    )


def _numbers(axis, grid: np.ndarray, end: float) -> None:
    places = 2 if end >= 0.1 else 3
    for (layer, head), value in np.ndenumerate(grid):
        text = f"{value:.{places}f}".replace("0.", ".", 1)
        colour = "white" if value > 0.45 * end else "#333333"
        axis.text(head, layer, text, ha="center", va="center", fontsize=6, color=colour)
