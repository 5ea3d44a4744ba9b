"""Attention maps of one sentence: a row for every layer, a column for every head."""

import matplotlib

from diverse_mha.analysis.figures.style import (
    COMPONENT_TITLES,
    STYLE,
    Plot,
    file_name,
    new_figure,
)
from diverse_mha.analysis.sentence import Attention, SentenceAttention

MOST_TOKENS = 40
HEADS_IN_A_ROW = 8
ROWS = 4  # of maps in a figure


def attention_maps(name: str, attention: SentenceAttention) -> list[Plot]:
    """Draw the attention of a model to a sentence.

    A figure for every component, and several where it has more maps than fit on a page.
    """
    plots = []
    for component, maps in attention.components.items():
        heads = next(iter(maps.layers.values())).size(0)
        size = max(ROWS // -(-heads // HEADS_IN_A_ROW), 1)  # layers in a figure
        numbers = list(maps.layers)
        for first in range(0, len(numbers), size):
            chosen = numbers[first : first + size]
            part = maps._replace(layers={n: maps.layers[n] for n in chosen})
            suffix = "" if size >= len(numbers) else f"-{chosen[0]}"
            plots.append(_component(name, component, part, attention.number, suffix))
    return plots


def _component(name: str, component: str, attention: Attention, number: int, suffix: str) -> Plot:
    queries, keys = attention.queries[:MOST_TOKENS], attention.keys[:MOST_TOKENS]
    heads = next(iter(attention.layers.values())).size(0)
    columns = min(heads, HEADS_IN_A_ROW)
    lines = [
        (layer, weights, first)
        for layer, weights in attention.layers.items()
        for first in range(0, heads, columns)
    ]
    # A label needs some 0.1 inch to be read; many maps make do with less.
    width = min(max(0.105 * len(keys), 1.3), 14 / columns)
    height = width * len(queries) / len(keys)
    font = max(min(6.5, 0.85 * 72 * width / len(keys)), 3.0)
    labels = 0.075 * font / 6 * max(len(token) for token in (*queries, *keys)) + 0.2
    with matplotlib.rc_context(STYLE):
        figure = new_figure(
            columns * (width + 0.12) + labels + 0.7, len(lines) * (height + 0.3) + labels + 0.2
        )
        axes = figure.subplots(len(lines), columns, squeeze=False)
        image = None
        for row, (layer, weights, first) in enumerate(lines):
            for column in range(columns):
                axis, head = axes[row, column], first + column
                if head >= heads:
                    axis.axis("off")
                    continue
                cells = weights[head, : len(queries), : len(keys)].numpy()
                image = axis.imshow(
                    cells, cmap="Blues", vmin=0, vmax=1, aspect="equal", interpolation="nearest"
                )
                axis.set_title(f"layer {layer}, head {head + 1}", fontsize=7, pad=3)
                _label(axis, queries if column == 0 else [], keys, row == len(lines) - 1, font)
        bar = figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01, aspect=40)
        bar.set_label("attention weight", fontsize=8)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
    words = "word it is to predict" if component == "cross" else "word it reads"
    caption = (
        f"Attention weights for sentence {number}: each row is a query, named by the {words}, "
        "each column a key; rows sum to 1."
    )
    if len(attention.queries) > MOST_TOKENS or len(attention.keys) > MOST_TOKENS:
        caption += f" Only the first {MOST_TOKENS} tokens of each side are shown."
    layers = list(attention.layers)
    title = f"Attention of the {COMPONENT_TITLES.get(component, component)}: {name}"
    if suffix:
        title += f", layers {layers[0]} to {layers[-1]}" if layers[1:] else f", layer {layers[0]}"
    return Plot(f"attention-{component}-{file_name(name)}{suffix}", title, caption, figure)


def _label(axis, queries: list[str], keys: list[str], lowest: bool, size: float) -> None:
    # parse_math off: a token with dollar signs is no formula.
    axis.set_yticks(range(len(queries)), queries, fontsize=size, parse_math=False)
    if lowest:
        axis.set_xticks(range(len(keys)), keys, fontsize=size, rotation=90, parse_math=False)
    else:
        axis.set_xticks([])
    axis.tick_params(length=0, pad=2)
    for spine in axis.spines.values():
        spine.set_visible(True)
        spine.set_color("#bbbbbb")
        spine.set_linewidth(0.5)
