"""Tables as text: for a terminal, and as Markdown, CSV and LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common import latex
from diverse_mha.common.files import csv_text, write_text


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


def to_latex(layout: Layout, label: str) -> str:
    """Write the table as a LaTeX ``table`` with ``booktabs`` rules and that label."""
    caption = " ".join((f"{layout.title}.", *layout.notes))
    return latex.table(layout.headings, [layout.lines], caption, label)


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


def _paragraphs(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in (note, "")][:-1]
