"""What all figures share: fonts, colours, and how they are saved."""

import base64
import io
import math
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import matplotlib
from matplotlib import font_manager
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
# Entries that hold the time, for the same reason as the salt.
_DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


class Plot(NamedTuple):
    """A figure and the words that go with it."""

    name: str  # of its files, without an ending
    title: str
    caption: str  # what was computed, and from which paper
    figure: Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that many inches, without pyplot's global state."""
    return Figure(figsize=(width, height), layout="constrained")


def drawn(plot: Plot, format: str) -> bytes:
    """Render a figure in one of ``FORMATS``."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A token in a script that no font here has shows as a box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        plot.figure.savefig(buffer, format=format, dpi=DPI, metadata=_DATES.get(format))
    plot.figure.set_layout_engine("none")  # found once; to find it again takes longer than to draw
    if format != "png":
        return buffer.getvalue()
    packed = io.BytesIO()  # without the alpha channel, which nothing uses: the same pixels, smaller
    Image.open(buffer).convert("RGB").save(packed, "png", optimize=True)
    return packed.getvalue()


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


def data_uri(svg: bytes) -> str:
    """Return an SVG as an address that holds the whole picture."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
