"""What all figures share: fonts, colours, and how they are saved."""

import io
from collections.abc import Iterable
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart; black for the ninth.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#6E4B1F",
    "#000000",
)  # fmt: skip
MARKERS = "osD^vPX*<"
STYLE = {
    "font.size": 9,
    "font.family": "DejaVu Sans",  # which comes with matplotlib
    "axes.titlesize": 9,
    "axes.titley": 1.0,  # else every drawing looks for a free place
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "text.parse_math": False,  # a $ in a model's name begins no formula
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "diverse-mha",  # the same drawing gives the same file
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
}
DPI = 150
FORMATS = ("png", "svg", "pdf")
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


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
    """Render a figure in some of ``FORMATS``; the same figure gives the same bytes."""
    pictures = {ending: io.BytesIO() for ending in formats}
    with matplotlib.rc_context(STYLE):
        # One layout for all formats: savefig would make one for each, twice.
        plot.figure.set_dpi(DPI)
        plot.figure.get_layout_engine().execute(plot.figure)
        plot.figure.set_layout_engine("none")
        for ending, file in pictures.items():
            plot.figure.savefig(file, format=ending, dpi=DPI, metadata=_UNDATED.get(ending))
    return {ending: picture.getvalue() for ending, picture in pictures.items()}
