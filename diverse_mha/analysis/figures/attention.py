"""Attention maps of one sentence, of every head."""

from typing import NamedTuple

import matplotlib

from diverse_mha.analysis.figures.style import (
    PAGE,
    STYLE,
    Plot,
    each_panel,
    new_figure,
    own_scale,
    side_bar,
)
from diverse_mha.analysis.names import COMPONENT_TITLES, file_name
from diverse_mha.analysis.sentence import Attention, SentenceAttention

MOST_TOKENS = 20  # so that four maps stand in a row with labels that can be read
COLUMNS = 8  # maps in a row, at most
HEIGHT = 11.0  # inches of a figure, about
GAP = 0.14  # inches between maps
TITLE = 0.2  # inches above a map
NARROWEST = 0.95  # inches that a map's title needs


class Sizes(NamedTuple):
    """The tokens that a figure's maps show, and inches from their number."""

    queries: list[str]
    keys: list[str]
    font: float  # points of a label
    width: float  # of a map with its title
    height: float
    labels: float  # of the longest label
    columns: int  # that fit

    @classmethod
    def of(cls, maps: Attention) -> "Sizes":
        """Cells of 0.16 inch where there are few tokens, of half as much where there are many."""
        queries, keys = maps.queries[:MOST_TOKENS], maps.keys[:MOST_TOKENS]
        cell = min(0.16, 1.7 / max(len(queries), len(keys)))
        width = max(cell * len(keys), NARROWEST) + GAP
        height = cell * len(queries) + TITLE
        font = min(7.0, 0.85 * 72 * cell)
        labels = font / 72 * 0.65 * max(len(token) for token in (*queries, *keys)) + 0.15
        columns = min(COLUMNS, int((PAGE - labels - 0.5) / width))
        return cls(queries, keys, font, width, height, labels, max(columns, 1))


def attention_maps(name: str, attention: SentenceAttention) -> list[Plot]:
    """Draw the attention of a model to a sentence: a map for every layer and head.

    A figure for every component, and several where it has more maps than can be read on a page;
    no layer is parted unless it fills more than a page by itself.
    """
    plots = []
    for component, maps in attention.components.items():
        heads = next(iter(maps.layers.values())).size(0)
        sizes = Sizes.of(maps)
        columns = _columns(heads, sizes.columns)
        lines = [
            [
                (f"layer {number}, head {head + 1}", weights[head])
                for head in range(first, min(first + columns, heads))
            ]
            for number, weights in maps.layers.items()
            for first in range(0, heads, columns)
        ]
        page = max(int((HEIGHT - sizes.labels) / sizes.height), 1)
        of_layer = -(-heads // columns)
        page = max(page // of_layer * of_layer, min(page, of_layer))
        title = f"Attention of the {COMPONENT_TITLES[component]}: {name}"
        *limits, said = own_scale((weights.numpy() for weights in maps.layers.values()), 1.0)
        for first in range(0, len(lines), page):
            chosen = lines[first : first + page]
            parted = len(lines) > page
            plots.append(
                Plot(
                    f"attention-{component}-{file_name(name)}"
                    + (f"-{first // page + 1}" if parted else ""),
                    title + (f", {chosen[0][0][0]} to {chosen[-1][-1][0]}" if parted else ""),
                    _caption(maps, component, attention.number) + said,
                    _weights_figure(chosen, sizes, tuple(limits)),
                )
            )
    return plots


def _columns(count: int, fit: int) -> int:
    """Maps in a row: all, or a divisor of them, so that no row stops short."""
    if count <= fit:
        return count
    even = max(n for n in range(1, fit + 1) if count % n == 0)
    return even if even > fit / 2 else fit


def _caption(maps: Attention, component: str, number: int) -> str:
    words = "word it is to predict" if component == "cross" else "word it reads"
    caption = (
        f"Attention weights for sentence {number}: each row is a query, named by the {words}, "
        "each column a key; rows sum to 1."
    )
    if len(maps.queries) > MOST_TOKENS or len(maps.keys) > MOST_TOKENS:
        caption += f" Only the first {MOST_TOKENS} tokens of each side are shown."
    return caption


def _weights_figure(lines: list[list], sizes: Sizes, limits: tuple[float, float]):
    """Draw rows of titled maps and their scale; tokens stand left of rows and under the last."""
    columns = max(map(len, lines))
    with matplotlib.rc_context(STYLE):
        width = columns * sizes.width + sizes.labels + 0.6
        figure = new_figure(width, len(lines) * sizes.height + sizes.labels + 0.1)
        axes = figure.subplots(len(lines), columns, squeeze=False)
        _draw(axes, lines, sizes, limits)
    return figure


def _draw(axes, lines: list[list], sizes: Sizes, limits: tuple[float, float]) -> None:
    queries, keys = sizes.queries, sizes.keys
    for axis, (title, cells), lowest in each_panel(axes, lines):
        image = axis.imshow(
            cells[: len(queries), : len(keys)].numpy(), cmap="Blues", vmin=limits[0],
            vmax=limits[1], aspect="equal", interpolation="nearest",
        )  # fmt: skip
        axis.set_title(title, fontsize=7, pad=3)
        axis.tick_params(length=0, pad=2)
        axis.xaxis.set_visible(lowest)
        axis.yaxis.set_visible(axis.get_subplotspec().is_first_col())
        if lowest:
            axis.set_xticks(range(len(keys)), keys, rotation=90, fontsize=sizes.font)
        axis.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.5)
    for axis in axes[:, 0]:
        axis.set_yticks(range(len(queries)), queries, fontsize=sizes.font)
    side_bar(image, axes, "attention weight")
