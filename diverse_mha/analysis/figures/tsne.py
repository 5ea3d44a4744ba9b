"""t-SNE of heads, as in Fig. 3 of Li et al. 2021."""

import matplotlib
import numpy as np
from sklearn.manifold import TSNE
from torch import Tensor

from diverse_mha.analysis.figures.style import COLOURS, MARKERS, STYLE, Plot, new_figure
from diverse_mha.analysis.names import COMPONENT_TITLES

FEWEST = 8  # heads, as Li et al. 2021 have of each model; of fewer t-SNE says nothing
CAPTION = (
    "t-SNE of heads (Li et al. 2021, Fig. 3): the output of each head averaged over words and "
    "layers, one point a head, numbered. Only neighbourhoods mean something, neither the axes "
    "nor the distances between groups; with few heads the picture is a hint at most."
)


def head_map(models: list[tuple[str, dict[str, Tensor]]]) -> Plot | None:
    """Draw the heads of models; None if no component has enough heads of one width.

    ``models`` are names, and by component the averaged outputs (H, D).
    """
    panels = {}
    for component in COMPONENT_TITLES:
        groups = [
            (i, means[component]) for i, (_, means) in enumerate(models) if component in means
        ]
        widths = {means.size(1) for _, means in groups}
        # It starts from two principal components.
        enough = sum(means.size(0) for _, means in groups) >= FEWEST and min(widths) >= 2
        if len(widths) == 1 and enough:
            panels[component] = groups
    if not panels:
        return None
    with matplotlib.rc_context(STYLE):
        figure = new_figure(3.0 * len(panels) + 0.3, 3.2)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (component, groups) in zip(axes, panels.items(), strict=True):
            _draw(axis, groups)
            axis.set_title(COMPONENT_TITLES[component])
        handles = [
            matplotlib.lines.Line2D([], [], linestyle="", label=name, **_look(i))
            for i, (name, _) in enumerate(models)
        ]
        if len(models) > 1:
            figure.legend(
                handles=handles, loc="outside lower center", ncols=min(len(models), 5),
                frameon=False, fontsize=8,
            )  # fmt: skip
    return Plot("heads-tsne", "Map of the heads", CAPTION, figure)


def _draw(axis, groups: list[tuple[int, Tensor]]) -> None:
    points = np.concatenate([means.numpy() for _, means in groups])
    # sklearn wants a perplexity below the number of points; 30 is its default.
    perplexity = min(30.0, (len(points) - 1) / 3)
    places = TSNE(
        n_components=2, perplexity=perplexity, init="pca", learning_rate="auto", random_state=1
    ).fit_transform(points)
    start = 0
    for i, means in groups:
        own = places[start : start + means.size(0)]
        start += means.size(0)
        axis.scatter(own[:, 0], own[:, 1], s=46, alpha=0.85, **_look(i))
        for number, (x, y) in enumerate(own, start=1):
            axis.annotate(
                str(number), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7,
                color="#333333",
            )  # fmt: skip
    axis.set_xticks([])
    axis.set_yticks([])
    axis.margins(0.15)
    axis.spines[:].set(visible=True, color="#bbbbbb")


def _look(i: int) -> dict[str, str]:
    # Those of the same colour have other markers.
    marker = MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]
    return {"color": COLOURS[i % len(COLOURS)], "marker": marker}
