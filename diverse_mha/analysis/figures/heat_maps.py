"""Heat maps of every pair of heads, a map for every layer of every component."""

import math

import matplotlib
import numpy as np

from diverse_mha.analysis.figures.style import (
    STYLE,
    Plot,
    each_panel,
    name_width,
    new_figure,
    own_scale,
    side_bar,
)
from diverse_mha.analysis.names import COMPONENT_TITLES, file_name

COLUMNS = 6  # maps in a row
CELL = 1.38  # inches of a map: a row of six is as wide as the page
DARK = "#333333"

# Title, label of the scale, caption, colours.
MEASURES = {
    "jsd": (
        "Jensen-Shannon divergence of heads",
        "JSD of attention, nats a sentence",
        "Divergence between the attention distributions of two heads, in nats, summed over the "
        "queries of a sentence and averaged over sentences (Zheng et al. 2021, Figs. 2 and 4-6). "
        "Darker: the heads look at different places. It is at most ln 2 times the mean "
        "number of queries, where heads never share a position.",
        "YlGnBu",
    ),
    "cka": (
        "CKA of heads",
        "CKA of outputs, linear kernel",
        "Linear centred kernel alignment between the outputs of two heads (Kornblith et al. "
        "2019; Yun et al. 2021). Darker: the heads answer alike. 1: alike up to rotation and "
        "scale.",
        "YlOrBr",
    ),
    "svcca": (
        "SVCCA of heads",
        "SVCCA of outputs",
        "Mean canonical correlation between the leading directions of the outputs of two heads "
        "(Raghu et al. 2017; Yun et al. 2021). Darker: the heads answer alike. 1: alike up to a "
        "linear map.",
        "YlOrBr",
    ),
}


def heat_maps(result: dict, measure: str) -> Plot | None:
    """Draw all pairs of heads of a model; None if there is nothing to draw.

    ``result`` is of ``diverse_mha.analysis.run.analyze``, ``measure`` a key of ``MEASURES`` that
    was measured.
    """
    rows = _rows(result, measure)
    if not rows:
        return None
    title, label, caption, colours = MEASURES[measure]
    shown = (off_diagonal(pairs) for _, maps in rows for _, pairs in maps)
    *limits, said = own_scale(shown, scale_end([result], measure))
    with matplotlib.rc_context(STYLE):
        figure, axes = empty_maps(len(rows), max(len(maps) for _, maps in rows))
        draw_rows(axes, rows, tuple(limits), colours, label)
    name = f"{measure}-{file_name(result['name'])}"
    return Plot(name, f"{title}: {result['name']}", caption + said, figure)


def empty_maps(rows: int, columns: int, names: tuple[str, ...] = ()):
    """Return a figure of that many maps, with room to name the rows, and their axes."""
    width = max(max(columns, 2) * CELL + 0.9, name_width(names) if names else 0)
    figure = new_figure(width, rows * (CELL + (0.4 if names else 0.24)) + 0.2)
    return figure, figure.subplots(rows, columns, squeeze=False)


def pairs_by_layer(entry: dict, measure: str) -> dict[str, np.ndarray]:
    """Pairs of heads (H, H) by layer of a component, of the layers that have a value."""
    return {
        number: np.array(layer[measure]["pairs"])
        for number, layer in entry["layers"].items()
        if layer.get(measure) is not None
    }


def off_diagonal(pairs: np.ndarray) -> np.ndarray:
    """Values of (H, H) pairs of two heads; the diagonal says nothing."""
    return pairs[~np.eye(len(pairs), dtype=bool)]


def _rows(result: dict, measure: str) -> list[tuple[str, list[tuple[str, np.ndarray]]]]:
    """Rows of maps for :func:`draw_rows`, of every component that has pairs of heads."""
    rows = []
    for component, entry in result["components"].items():
        if entry["heads"] < 2:
            continue
        maps = [
            (f"layer {number}, mean {entry['layers'][number][measure]['mean']:.2f}", pairs)
            for number, pairs in pairs_by_layer(entry, measure).items()
        ]
        label = COMPONENT_TITLES[component]
        rows += [(label, maps[i : i + COLUMNS]) for i in range(0, len(maps), COLUMNS)]
    return rows


def scale_end(results: list[dict], measure: str) -> float:
    """Upper end of the colour scale: the largest value that there could be."""
    if measure != "jsd":
        return 1.0
    lengths = [
        layer["jsd"]["mean"] / layer["jsd"]["per_row"]  # positions of a sentence
        for result in results
        for entry in result["components"].values()
        for layer in entry["layers"].values()
        if layer.get("jsd") and layer["jsd"]["per_row"]
    ]
    return math.log(2) * max(lengths, default=1.0)


def draw_rows(
    axes: np.ndarray,
    rows: list[tuple[str, list[tuple[str, np.ndarray]]]],
    limits: tuple[float, float],
    colours: str,
    scale: str,
) -> None:
    """Draw rows of maps, and beside them the scale that they share.

    A row is what it is of, and title and pairs (H, H) of its maps; ``limits`` are the ends of the
    scale, ``colours`` matplotlib's name of a colour map.
    """
    for axis, (title, pairs), lowest in each_panel(axes, [maps for _, maps in rows]):
        image = _draw_pairs(axis, pairs, limits, colours, lowest)
        axis.set_title(title, fontsize=8)
        if lowest:
            axis.set_xlabel("head", fontsize=8)
    for axis, (label, _) in zip(axes[:, 0], rows, strict=True):
        axis.set_ylabel(f"{label}\nhead".lstrip(), fontsize=8)
    side_bar(image, axes, scale)


def _draw_pairs(axis, pairs: np.ndarray, limits: tuple[float, float], colours: str, lowest: bool):
    """Draw one map, and return the image that a scale can be drawn for.

    Heads are numbered at the left of a row and below the ``lowest`` maps.
    """
    heads = len(pairs)
    shown = np.where(np.eye(heads, dtype=bool), np.nan, pairs)  # the diagonal says nothing
    colour_map = matplotlib.colormaps[colours].with_extremes(bad="#ececec")
    image = axis.imshow(
        shown, cmap=colour_map, vmin=limits[0], vmax=limits[1], interpolation="nearest"
    )
    step = 1 if heads <= 9 else -(-heads // 6)  # numbers of two digits need room
    ticks = list(range(0, heads, step))
    for numbered, side in (
        (lowest, axis.xaxis),
        (axis.get_subplotspec().is_first_col(), axis.yaxis),
    ):
        side.set_visible(numbered)  # the heads of all maps are the same
        if numbered:
            side.set_ticks(ticks, [str(tick + 1) for tick in ticks], fontsize=7)
            side.set_tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)
    if heads <= 6:
        _digits(axis, pairs, limits)
    return image


def decimals(limit: float) -> int:
    """Digits after the point that tell numbers up to ``limit`` apart, from 1 to 4."""
    return 1 if limit > 1 else min(max(2, 1 - math.floor(math.log10(limit) + 1e-9)), 4)


def _digits(axis, pairs: np.ndarray, limits: tuple[float, float]) -> None:
    """Write the values into the cells, where there is room to read them."""
    start, end = max(limits[0], 0.0), limits[1]
    places = decimals(end - start)
    most = min(7 if len(pairs) <= 4 else 5.5, 132 / len(pairs) / (places + 2))  # points
    for i, j in zip(*np.nonzero(~np.eye(len(pairs), dtype=bool)), strict=True):
        digits = f"{pairs[i, j]:.{places}f}"
        axis.text(
            j, i, digits.replace("0.", ".", 1) if places > 1 else digits,
            ha="center", va="center", fontsize=most,
            color="white" if abs(pairs[i, j]) - start > 0.6 * (end - start) else DARK,
        )  # fmt: skip
