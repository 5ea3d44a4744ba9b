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
    """A table as text: headings, cells, and the notes under it."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    names: int = 1  # columns at the left that hold words, not numbers


def to_text(layout: Layout) -> str:
    """Lay the table out for a terminal."""
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
    """Write the table as Markdown."""
    table = markdown_table(layout.headings, layout.lines, names=layout.names)
    return "\n".join([f"**{layout.title}**\n", table, *(f"{note}\n" for note in layout.notes)])


def markdown_table(
    headings: Sequence[str], lines: Iterable[Sequence[str]], *, names: int = 1
) -> str:
    """Write a table as Markdown without title and notes; its first columns hold words."""
    rule = ["---"] * names + ["---:"] * (len(headings) - names)
    rows = ([cell.replace("|", "\\|") for cell in row] for row in (headings, rule, *lines))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def to_csv(layout: Layout) -> str:
    """Write the table as CSV, headings first, no notes."""
    return csv_text([layout.headings, *layout.lines])


def csv_text(rows: Iterable[Sequence]) -> str:
    """Return rows as comma-separated values, quoted where a cell holds a comma or a quote."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def to_latex(layout: Layout, label: str) -> str:
    """Write the table as a LaTeX ``table`` with ``booktabs`` rules and that label."""
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
    r"""Write a ``table`` that needs ``\usepackage{booktabs}`` and nothing else.

    All cells are plain text, which is escaped here. A rule parts one group of rows from the
    next; the first ``names`` columns hold words. No sign of the label, ``\ref``'s, is escaped.
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
    """Return ``text`` so that LaTeX prints it as it is."""
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
