"""Figures of an analysis (matplotlib): heat maps of head pairs, SVCCA coefficient curves, style."""

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image  # Pillow is installed with matplotlib

from diverse_mha.analysis.labels import COMPONENT_TITLES, file_name
from diverse_mha.analysis.results import Component, Layer, Model, PairMeasure

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

# Six colours of the colour-blind safe palette of Okabe and Ito, then purple, brown and black.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#6E4B1F",
    "#000000",
)  # fmt: skip
MARKERS = "osD^vPX*<"
STYLE: "dict[RcKeyType, Any]" = {
    "font.size": 9,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "axes.titlesize": 9,
    "axes.titley": 1.0,  # fixed, because automatic placement runs on every draw
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "text.parse_math": False,  # a model's name may contain $
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "diverse-mha",  # makes files deterministic
    "pdf.fonttype": 42,  # TrueType, because publishers refuse Type 3 fonts
}
DPI = 150
FORMATS = ("png", "svg", "pdf")
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


class Plot(NamedTuple):
    """A figure with file name, title and caption."""

    name: str  # file name without suffix
    title: str
    caption: str  # what was computed, and from which paper
    figure: Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, independent of pyplot's global state; the size is in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def render_plot(plot: Plot, formats: Iterable[str] = FORMATS) -> dict[str, bytes]:
    """Return format -> bytes of a figure; rendering it again gives the same bytes."""
    pictures = {ending: io.BytesIO() for ending in formats}
    with matplotlib.rc_context(STYLE):
        # Lay out once for all formats; savefig would do it twice for each.
        plot.figure.set_dpi(DPI)
        if (engine := plot.figure.get_layout_engine()) is not None:
            engine.execute(plot.figure)
        plot.figure.set_layout_engine("none")
        for ending, file in pictures.items():
            plot.figure.savefig(file, format=ending, dpi=DPI, metadata=_UNDATED.get(ending))
    return {ending: picture.getvalue() for ending, picture in pictures.items()}


def fewer_colours(png: bytes, count: int) -> bytes:
    """Reduce a PNG picture to ``count`` colours, which more than halves its size."""
    smaller = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(count, dither=Image.Dither.NONE).save(smaller, "png", optimize=True)
    return smaller.getvalue()


COLUMNS = 6  # maps in a row
CELL = 1.38  # width of a map in inches: six fill the page
DIGITS = 6  # cells show their values if there are at most this many heads
Maps = dict[str, np.ndarray]  # layer -> values of pairs of heads (H, H)

# Measure -> title, label of the colour scale, caption, colour map.
MEASURES: dict[PairMeasure, tuple[str, str, str, str]] = {
    "jsd": (
        "Jensen-Shannon divergence of heads",
        "JSD of attention, nats a sentence",
        "Divergence between the attention distributions of two heads, in nats, summed over the "
        "queries of a sentence and averaged over sentences (Zheng et al. 2021, Figs. 2 and 4-6). "
        "Darker: the heads attend to more different positions. The maximum, for heads that never "
        "share a position, is ln 2 times the mean number of queries.",
        "YlGnBu",
    ),
    "cka": (
        "CKA of heads",
        "CKA of outputs, linear kernel",
        "Linear centred kernel alignment between the outputs of two heads (Kornblith et al. "
        "2019; Yun et al. 2021). Darker: the outputs are more similar. 1: equal up to rotation "
        "and scale.",
        "YlOrBr",
    ),
    "svcca": (
        "SVCCA of heads",
        "SVCCA of outputs",
        "Mean canonical correlation between the leading directions of the outputs of two heads "
        "(Raghu et al. 2017; Yun et al. 2021). Darker: the outputs are more similar. 1: equal up "
        "to a linear map.",
        "YlOrBr",
    ),
}


def heat_maps(result: Model, measure: PairMeasure, end: float) -> Plot | None:
    """Draw a map of head pairs for each layer of a model; return None if there are no pairs.

    Args:
        result: the analysis of a model.
        measure: a key of ``MEASURES``.
        end: upper limit of the colour scale, from :func:`colour_limit`.
    """
    rows = []
    for component, entry in result.components.items():
        maps = [*_maps(entry, measure).items()]
        cut = range(0, len(maps), COLUMNS)
        rows += [(COMPONENT_TITLES[component], dict(maps[n : n + COLUMNS])) for n in cut]
    if not rows:
        return None
    title, label, caption, colours = MEASURES[measure]
    with matplotlib.rc_context(STYLE):
        columns = max(len(maps) for _, maps in rows)
        figure = new_figure(_width(columns), len(rows) * (CELL + 0.24) + 0.2)
        axes = figure.subplots(len(rows), columns, squeeze=False)
        _draw(axes, [maps for _, maps in rows], (0, end), colours, label)
        for axis, (name, _) in zip(axes[:, 0], rows, strict=True):
            axis.set_ylabel(f"{name}\nhead", fontsize=8)
    name = f"{measure}-{file_name(result.name)}"
    return Plot(name, f"{title}: {result.name}", caption, figure)


def comparison_maps(first: Model, second: Model, measure: PairMeasure, end: float) -> list[Plot]:
    """Draw the maps of two models in two rows, with the difference (second minus first) below.

    Returns:
        A figure for each component with the same layers and number of heads in both.
    """
    title, label, caption, colours = MEASURES[measure]
    names, plots = (first.name, second.name), []
    for component, entry in first.components.items():
        other = second.components.get(component)
        if other is None or entry.heads != other.heads:
            continue
        first_maps, second_maps = _maps(entry, measure), _maps(other, measure)
        if not first_maps or [*first_maps] != [*second_maps]:
            continue
        change = {number: second_maps[number] - first_maps[number] for number in first_maps}
        with matplotlib.rc_context(STYLE):
            width = max(_width(len(first_maps)), 0.08 * max(map(len, names)) + 0.2)
            figure = new_figure(width, 3 * (CELL + 0.4) + 0.2)
            axes = figure.subplots(3, len(first_maps), squeeze=False)
            _draw(axes[:2], [first_maps, second_maps], (0, end), colours, label, lead="\n")
            largest = _largest(change)
            _draw(axes[2:], [change], (-largest, largest), "PuOr", "difference", lead="\n")
            for axis, name in zip(axes[:, 0], (*names, "difference"), strict=True):
                # A name has its own line above the titles, as it may be wider than a map.
                axis.annotate(
                    name, (0.01, 1), xytext=(0, 16), fontsize=8, fontweight="bold",
                    xycoords=("figure fraction", "axes fraction"), textcoords="offset points",
                    in_layout=False,
                )  # fmt: skip
        plots.append(
            Plot(
                f"{measure}-{component}-beside",
                f"{title}, {COMPONENT_TITLES[component]}: {' and '.join(names)}",
                f"{caption} Last row: {names[1]} minus {names[0]}. Head 3 of one model does not "
                "correspond to head 3 of the other, unless one was trained from the other: compare "
                "the patterns and the means, not single cells.",
                figure,
            )
        )
    return plots


def colour_limit(results: list[Model], measure: PairMeasure) -> float:
    """Return the largest pair value over all models: the limit of their shared colour scale."""
    entries = [entry for result in results for entry in result.components.values()]
    return max((_largest(_maps(entry, measure)) for entry in entries), default=1e-9)


def _maps(entry: Component, measure: PairMeasure) -> Maps:
    """Return layer -> map of a component, with NaN on the diagonal.

    The result is empty for a component with one head. Layers with too few positions are left out,
    as are layers in which pruning left a single head.
    """
    if entry.heads < 2:
        return {}
    diagonal = np.diag([np.nan] * entry.heads)
    maps = {
        number: np.array(found.pairs, dtype=float) + diagonal
        for number, layer in entry.layers.items()
        if (found := layer.get(measure)) is not None
    }
    return {number: pairs for number, pairs in maps.items() if not np.isnan(pairs).all()}


def _width(columns: int) -> float:
    """Return the width in inches of maps beside each other, with head numbers and colour scale."""
    return columns * CELL + 0.9 + 0.3 * (columns == 1)  # a single title is wider than its map


def _largest(maps: Maps) -> float:
    return max((float(np.nanmax(np.abs(pairs))) for pairs in maps.values()), default=0) or 1e-9


def _draw(
    axes: np.ndarray,
    rows: list[Maps],
    limits: tuple[float, float],
    colours: str,
    scale: str,
    lead: str = "",
) -> None:
    """Draw rows of maps with a shared colour bar; ``lead`` is a prefix of each title."""
    colour_map = matplotlib.colormaps[colours].with_extremes(bad="#ececec")
    rows_of_axes, images = list(axes), []
    for line, maps in zip(rows_of_axes, rows, strict=True):
        for axis in line[len(maps) :]:
            axis.axis("off")
        for axis, (number, pairs) in zip(line, maps.items(), strict=False):
            image = axis.imshow(pairs, cmap=colour_map, vmin=limits[0], vmax=limits[1])
            heads = range(0, len(pairs), -(-len(pairs) // 9))
            axis.set_xticks(heads, [head + 1 for head in heads])
            axis.set_yticks(heads, [head + 1 for head in heads])
            axis.tick_params(length=0, pad=2, labelsize=6)
            axis.xaxis.set_visible(line is rows_of_axes[-1])  # head numbers below the last row only
            axis.yaxis.set_visible(axis is line[0])
            axis.spines[:].set_visible(False)
            average = _two_digits(float(np.nanmean(pairs)))
            axis.set_title(f"{lead}layer {number}, mean {average}", fontsize=8)
            if len(pairs) <= DIGITS:
                _write_values(axis, pairs, limits)
            images.append(image)
    bar = images[-1].figure.colorbar(images[-1], ax=axes, fraction=0.03, pad=0.02, aspect=30)
    bar.set_label(scale, fontsize=8 if len(rows) > 1 else 6)  # a single row is low
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


def _write_values(axis: Axes, pairs: np.ndarray, limits: tuple[float, float]) -> None:
    for (i, j), value in np.ndenumerate(pairs):
        if not np.isnan(value):
            dark = abs(value) > 0.6 * limits[1]
            text = _two_digits(value).replace("0.", ".", 1)
            colour = "white" if dark else "#333333"
            axis.text(j, i, text, ha="center", va="center", fontsize=5.5, color=colour)


def _two_digits(value: float) -> str:
    """Format a number with two digits, or all those before the point: 118, not 1.2e+02."""
    return f"{value:.0f}" if abs(value) >= 99.5 else f"{value:.2g}"


CAPTION = (
    "Canonical correlations between the leading directions of two heads' outputs, sorted (SVCCA, "
    "as in Figs. 2-4 of Yun et al. 2021), at the last measured layer of each component. Point n is "
    "the mean of the nth correlation over the pairs of heads that have n or more. Lower: the "
    "outputs are less similar."
)
LINES = ("-", "--", ":", "-.")  # line styles once the colours are used up


def curves_of_models(results: list[Model]) -> Plot | None:
    """Draw each model's SVCCA coefficients at the last selected layer of each component.

    Return None if there are no coefficients.
    """
    panels: dict[str, dict[str, np.ndarray]] = {}
    for result in results:
        for component, entry in result.components.items():
            curve = curve_of(list(entry.layers.values())[-1])
            if len(curve):
                panels.setdefault(component, {})[result.name] = curve
    if not panels:
        return None
    looks = {
        result.name: {
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
        # The legend is outside the panels, where it hides no curve.
        named = [name for name in looks if any(name in lines for lines in panels.values())]
        handles = [Line2D([], [], **looks[name]) for name in named]
        figure.legend(handles, named, frameon=False, fontsize=8, loc="outside right upper")
    return Plot("svcca-curves-models", "Canonical correlations by model", CAPTION, figure)


def curve_of(layer: Layer) -> np.ndarray:
    """Return, for each n, the mean nth SVCCA coefficient of the pairs that have n or more."""
    svcca = layer.get("svcca")
    pairs = [*svcca.coefficients.values()] if svcca else []
    longest = max(map(len, pairs), default=0)
    return np.array([np.mean([x[n] for x in pairs if len(x) > n]) for n in range(longest)])
