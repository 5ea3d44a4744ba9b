"""Tables as text: for a terminal, and as Markdown, CSV and LaTeX (with ``booktabs``)."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common.files import write_text

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "≠": r"$\neq$",
} | {letter: "\\" + letter for letter in "&%$#_{}"}


@dataclass(frozen=True)
class Layout:
    """A table: headings, cells, and the notes under it."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    names: int = 1  # number of text columns at the left


def to_text(layout: Layout) -> str:
    """Return the table for a terminal."""
    rows = [layout.headings, *layout.lines]
    widths = [max(len(row[place]) for row in rows) for place in range(len(layout.headings))]
    lines = [layout.title]
    for row in rows:
        cells = [
            cell.ljust(width) if place < layout.names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *layout.notes])


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
    """Return the table as a LaTeX ``table`` with ``booktabs`` rules."""
    caption = " ".join((f"{layout.title}.", *layout.notes))
    return latex_table(layout.headings, [layout.lines], caption, label, names=layout.names)


def latex_table(
    headings: Sequence[str],
    groups: Iterable[Iterable[Sequence[str]]],
    caption: str,
    label: str,
    *,
    names: int = 1,
) -> str:
    r"""Return a ``table`` that needs ``\usepackage{booktabs}``, with a rule between groups of rows.

    Cells and caption are escaped here, the label is not.
    """
    columns = "l" * names + "r" * (len(headings) - names)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(headings),
    ]
    for group in groups:
        lines += [r"\midrule", *map(_row, group)]
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{_escape(caption)}}}",
        rf"\label{{{label}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(_escape, cells)) + r" \\"


def _escape(text: str) -> str:
    return "".join(_SIGNS.get(letter, letter) for letter in text)


def write_texts(layout: Layout, folder: Path, name: str) -> list[Path]:
    """Write the table as ``NAME.md``, ``.csv`` and ``.tex``, and return the files."""
    texts = {
        ".md": to_markdown(layout),
        ".csv": to_csv(layout),
        ".tex": to_latex(layout, f"tab:{name}"),
    }
    files = []
    for ending, text in texts.items():
        files.append(folder / f"{name}{ending}")
        write_text(files[-1], text)
    return files
