"""Tables as text: for a terminal, and as Markdown, CSV and LaTeX (with ``booktabs``)."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import LATEX_ESCAPE_RULES, tabulate

from diverse_mha.common.files import write_text

_SIGNS = LATEX_ESCAPE_RULES | {"±": r"$\pm$", "≠": r"$\neq$"}


@dataclass(frozen=True)
class Layout:
    """A table: headings, cells, and the notes under it."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    names: int = 1  # number of text columns at the left


def _grid(layout: Layout, rows: Iterable[Sequence[str]], form: str, **options) -> str:
    """Format rows with tabulate: names left-aligned, numbers right-aligned."""
    names = layout.names
    sides = ["left"] * names + ["right"] * (len(layout.headings) - names)
    return tabulate(rows, tablefmt=form, colalign=sides, disable_numparse=True, **options)


def to_text(layout: Layout) -> str:
    """Return the table for a terminal."""
    grid = _grid(layout, [layout.headings, *layout.lines], "plain")
    return "\n".join([layout.title, grid, *layout.notes])


def to_markdown(layout: Layout) -> str:
    """Return the table as Markdown."""
    table = markdown_table(layout.headings, layout.lines, names=layout.names)
    return "\n".join([f"**{layout.title}**\n", table, *(f"{note}\n" for note in layout.notes)])


def markdown_table(
    headings: Sequence[str], lines: Iterable[Sequence[str]], *, names: int = 1
) -> str:
    """Return a Markdown table without title and notes."""
    rule = ["---"] * names + ["---:"] * (len(headings) - names)
    rows = ([cell.replace("|", "\\|") for cell in row] for row in (headings, rule, *lines))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def to_csv(layout: Layout) -> str:
    """Return the table as CSV, without notes."""
    return csv_text([layout.headings, *layout.lines])


def csv_text(rows: Iterable[Sequence]) -> str:
    """Return rows as comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def to_latex(layout: Layout, label: str) -> str:
    r"""Return the table as a LaTeX ``table``, which needs ``\usepackage{booktabs}``."""
    grid = _grid(layout, layout.lines, "latex_booktabs", headers=layout.headings)
    for sign in "±≠":
        grid = grid.replace(sign, _SIGNS[sign])
    text = " ".join((f"{layout.title}.", *layout.notes))
    caption = "".join(_SIGNS.get(letter, letter) for letter in text)
    parts = [r"\begin{table}", r"\centering", grid, rf"\caption{{{caption}}}"]
    return "\n".join([*parts, rf"\label{{{label}}}", r"\end{table}"]) + "\n"


def texts_of(layout: Layout, folder: Path, name: str) -> dict[Path, str]:
    """Return the table as the files ``NAME.md``, ``.csv`` and ``.tex`` and their texts."""
    return {
        folder / f"{name}.md": to_markdown(layout),
        folder / f"{name}.csv": to_csv(layout),
        folder / f"{name}.tex": to_latex(layout, f"tab:{name}"),
    }


def write_texts(layout: Layout, folder: Path, name: str) -> list[Path]:
    """Write the files of :func:`texts_of`, and return them."""
    texts = texts_of(layout, folder, name)
    for file, text in texts.items():
        write_text(file, text)
    return [*texts]
