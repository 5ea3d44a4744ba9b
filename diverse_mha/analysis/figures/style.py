"""What all figures share: fonts, colours, and how they are saved."""

import base64
import io
import math
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image

# Okabe and Ito's colours, which colour-blind readers can tell apart; black for the ninth.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#6E4B1F",
    "#000000",
)  # fmt: skip
MARKERS = "osD^vPX*<"
STYLE = {
    "font.size": 9,
    # DejaVu comes with matplotlib; the others, where they are, have the scripts that it lacks.
    "font.family": ["DejaVu Sans", *(
        name
        for name in ("Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Microsoft YaHei",
                     "WenQuanYi Zen Hei", "Noto Sans Devanagari", "Noto Sans Arabic")
        if name in font_manager.get_font_names()
    )],
    "axes.titlesize": 9,
    "axes.titley": 1.0,  # else every drawing looks for a free place
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "text.parse_math": False,  # a $ in a token, or in a model's name, begins no formula
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "diverse-mha",  # the same drawing gives the same file
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
}  # fmt: skip
DPI = 150
PAGE = 9.0  # inches: as wide as the report's page, where a font of 7 points can still be read
FORMATS = ("png", "svg", "pdf")
NEAR = 0.2  # of a scale: values that keep to this part of one end get a scale of their own


class Plot(NamedTuple):
    """A figure and the words that go with it."""

    name: str  # of its files, without an ending
    title: str
    caption: str  # what was computed, and from which paper
    figure: Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches, without pyplot's global state."""
    return Figure(figsize=(width, height), layout="constrained")


def drawn(plot: Plot, formats: Iterable[str] = FORMATS) -> dict[str, bytes]:
    """Render a figure in some of ``FORMATS``, with one layout and one drawing each.

    ``savefig`` would draw each of them twice. It can be done once: the layout stays as it is.
    """
    figure, pictures = plot.figure, {ending: io.BytesIO() for ending in formats}
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A token in a script that no font here has shows as a box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure.set_dpi(DPI)
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        for ending, file in pictures.items():
            _DRAW[ending](figure, file)
            figure.set_dpi(DPI)  # which the others change to points
    return {ending: picture.getvalue() for ending, picture in pictures.items()}


def _draw_png(figure: Figure, file: io.BytesIO) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    # Without the alpha channel, which nothing uses: the same pixels, smaller.
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    pixels.save(file, "png", dpi=(DPI, DPI))


# The entries that hold the time are left out, for the same reason as the salt is set.
_DRAW = {
    "png": _draw_png,
    "svg": lambda figure, file: FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None}),
    "pdf": lambda figure, file: FigureCanvasPdf(figure).print_pdf(
        file, metadata={"CreationDate": None}
    ),
}


def in_rows(layers: list, most: int) -> Iterator[tuple[list, str, str]]:
    """Cut layers into rows of a figure each: these, and what ends the figure's name and title."""
    for first in range(0, len(layers), most):
        row = layers[first : first + most]
        if len(layers) <= most:
            yield row, "", ""
        else:
            yield row, f"-{row[0]}", f", layers {row[0]} to {row[-1]}"


def each_panel(axes, lines: list[list]) -> Iterator[tuple]:
    """Go through the axes of rows of panels, and turn off those that a row is too short for.

    Yields:
        The axis, what it is to show, and whether no panel is below it.
    """
    for row, line in enumerate(lines):
        for column, axis in enumerate(axes[row]):
            if column >= len(line):
                axis.axis("off")
                continue
            lowest = row == len(lines) - 1 or column >= len(lines[row + 1])
            yield axis, line[column], lowest


def name_rows(axes, names: Iterable[str], height: float) -> None:
    """Write what a row is of above its panels, in a line that their titles leave free.

    A model's name may be longer than a panel is high, and does not fit beside it. ``height`` is
    that of the titles, in points.
    """
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.annotate(
            name, (0.01, 1), xytext=(0, height), xycoords=("figure fraction", "axes fraction"),
            textcoords="offset points", fontsize=8, fontweight="bold", in_layout=False,
        )  # fmt: skip


def name_width(names: Iterable[str]) -> float:
    """Inches that :func:`name_rows` needs for the longest name."""
    return 0.08 * max(map(len, names)) + 0.2


def side_bar(image, axes, label: str) -> None:
    """Draw the scale of an image's colours to the right of some axes."""
    bar = image.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02, aspect=30)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


def difference_limit(largest: Iterable[float]) -> float:
    """Both ends of a scale of differences: the largest one, rounded up to one digit."""
    limit = max(largest, default=0.0)
    if limit == 0:
        return 1.0
    digit = 10.0 ** math.floor(math.log10(limit))
    return math.ceil(limit / digit - 1e-9) * digit


def own_scale(values: Iterable[np.ndarray], end: float) -> tuple[float, float, str]:
    """Ends of a scale of colours, from 0 to ``end`` unless all values lie near one of them.

    Returns:
        The lower end, the upper end, and for the caption a sentence, empty for the whole scale.
    """
    shown = np.concatenate([np.ravel(x) for x in values])
    low, high = float(shown.min()), float(shown.max())
    if 0 < high <= NEAR * end:
        limit = difference_limit([high])
        return 0.0, limit, f" All values are small: the scale ends at {limit:g}, not at {end:.3g}."
    if low >= (1 - NEAR) * end and low < end:
        start = round(end - difference_limit([end - low]), 12)
        return start, end, f" All values are large: the scale begins at {start:g}, not at 0."
    return 0.0, end, ""


def data_uri(svg: bytes) -> str:
    """Return an SVG as an address that holds the whole picture."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
