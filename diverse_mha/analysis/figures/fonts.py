"""A small DejaVu Sans: to cut letters out of the whole one takes a third of drawing a PDF."""

import atexit
import shutil
import tempfile
from pathlib import Path

from fontTools import subset
from matplotlib.font_manager import FontProperties, findfont, fontManager

FAMILY = "DejaVu Sans Latin"
# Latin letters of Europe, and the signs that captions and subwords have; others fall back.
LETTERS = [*range(0x20, 0x180), *map(ord, "‘’“”„–—…▁≠−")]


def small_family() -> str:
    """Return what matplotlib calls the font; that of the whole one where no file can be written."""
    if FAMILY not in fontManager.get_font_names():
        try:
            _register()
        except OSError:
            return "DejaVu Sans"
    return FAMILY


def _register() -> None:
    """Make the font, regular and bold, for this process."""
    folder = Path(tempfile.mkdtemp(prefix="diverse-mha-fonts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for weight in ("regular", "bold"):
        whole = findfont(FontProperties(family="DejaVu Sans", weight=weight))
        options = subset.Options(layout_features=["kern"], notdef_outline=True, glyph_names=True)
        options.drop_tables += ["MATH", "FFTM"]
        font = subset.load_font(str(whole), options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=LETTERS)
        subsetter.subset(font)
        for name in font["name"].names:
            if name.nameID in (1, 4, 16):
                bold = " Bold" if weight == "bold" and name.nameID == 4 else ""
                name.string = FAMILY + bold
        font.save(folder / f"{weight}.ttf")
        fontManager.addfont(folder / f"{weight}.ttf")
