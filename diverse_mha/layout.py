"""Tables as text: for a terminal, and as Markdown, CSV and LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.files import csv_text, write_text


@dataclass(frozen=True)
class Layout:
    """A table as text: headings, cells, and the notes under it."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def to_text(layout: Layout) -> str:
    """Lay the table out for a terminal."""
    rows = [layout.headings, *layout.lines]
    widths = [max(len(row[place]) for row in rows) for place in range(len(layout.headings))]
    lines = [layout.title]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *layout.notes])


def to_markdown(layout: Layout) -> str:
    """Write the table as Markdown."""
    rule = ["---", *["---:"] * (len(layout.headings) - 1)]
    rows = [layout.headings, rule, *layout.lines]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"**{layout.title}**", "", *lines, "", *_paragraphs(layout.notes)]) + "\n"


def to_csv(layout: Layout) -> str:
    """Write the table as CSV, headings first, no notes."""
    return csv_text([layout.headings, *layout.lines])


def to_latex(layout: Layout) -> str:
    """Write the table as a LaTeX ``table`` with ``booktabs`` rules."""
    rows = [" & ".join(map(_escape, row)) + r" \\" for row in (layout.headings, *layout.lines)]
    notes = " ".join(map(_escape, (f"{layout.title}.", *layout.notes)))
    return (
        "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(layout.headings) - 1)}}}",
                r"\toprule",
                rows[0],
                r"\midrule",
                *rows[1:],
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{notes}}}",
                r"\end{table}",
            ]
        )
        + "\n"
    )


def write_texts(layout: Layout, folder: Path, name: str) -> list[Path]:
    """Write the table as ``NAME.md``, ``.csv`` and ``.tex``, and return the files."""
    files = []
    for ending, to in ((".md", to_markdown), (".csv", to_csv), (".tex", to_latex)):
        files.append(folder / f"{name}{ending}")
        write_text(files[-1], to(layout))
    return files


def _paragraphs(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in (note, "")][:-1]


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
} | {letter: "\\" + letter for letter in "&%$#_{}"}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
