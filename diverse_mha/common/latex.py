"""Tables for LaTeX, with the rules of the ``booktabs`` package."""

from collections.abc import Iterable, Sequence

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "≠": r"$\neq$",
} | {letter: "\\" + letter for letter in "&%$#_{}"}


def escape(text: str) -> str:
    """Return ``text`` so that LaTeX prints it as it is."""
    return "".join(_SIGNS.get(letter, letter) for letter in text)


def table(
    headings: Sequence[str],
    groups: Iterable[Iterable[Sequence[str]]],
    caption: str,
    label: str,
    *,
    names: int = 1,
) -> str:
    r"""Write a ``table`` that needs ``\usepackage{booktabs}`` and nothing else.

    Args:
        headings: of the columns; like all cells plain text, which is escaped here.
        groups: rows; a rule parts one group of them from the next.
        caption: under the table.
        label: what ``\ref`` calls it; no sign of it is escaped.
        names: columns at the left that hold words, not numbers.
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
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{{label}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"
