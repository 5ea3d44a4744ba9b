"""The tables that ``diverse-mha analyze`` prints."""

import textwrap
from collections.abc import Iterable

from diverse_mha.analysis.contradictions import contradictions
from diverse_mha.analysis.tables import (
    AGAINST,
    Part,
    against_rows,
    comparisons,
    legend,
    number,
    parts_of,
    rows_of,
    summary_rows,
)

WIDTH = 80


def format_tables(results: list[dict], subset: str, against: str | None = None) -> str:
    """Lay out the results of models for a terminal: the tables of each, and of all if several.

    Args:
        results: of ``diverse_mha.analysis.run.analyze``.
        subset: name of the split.
        against: name of the model that the others were compared with, if one was.
    """
    lines = []
    for result in results:
        lines += _model_tables(result, subset)
    if len(results) > 1:
        lines += _comparisons(results)
    if against is not None:
        lines += [*_against(results, against), ""]
    for sentence in contradictions(results):
        lines += [*textwrap.wrap(sentence, WIDTH), ""]
    for line in legend(results[0]):
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def _model_tables(result: dict, subset: str) -> list[str]:
    shape = "; ".join(
        f"{component} {entry['heads']} heads, {entry['positions']:,} positions"
        for component, entry in result["components"].items()
    )
    lines = [f"{result['name']} ({result['architecture']}), {subset}: {shape}", ""]
    rows = rows_of(result)
    rows += [("all", label, v) for label, v in summary_rows(result).items() if label != "cross"]
    for part in parts_of(result):
        lines += [part.title, f"{'component':<11}{'layer':<6}" + _cells(part, part.headings)]
        previous = None
        for component, layer, values in rows:
            shown = component if component != previous else ""
            lines.append(f"{shown:<11}{layer:<6}" + _numbers(part, values))
            previous = component
        lines.append("")
    return lines


def _comparisons(results: list[dict]) -> list[str]:
    width = _name_width(results)
    lines = []
    for _, title, rows in comparisons(results):
        lines.append(title)
        for part in parts_of(results[0]):
            lines.append(f"{'model':<{width}}" + _cells(part, part.headings))
            lines += [f"{name:<{width}}" + _numbers(part, values) for name, values in rows]
        lines.append("")
    return lines


def _against(results: list[dict], against: str) -> list[str]:
    width = _name_width(results)
    lines = [f"last layers beside those of {against} (Yun et al. 2021, Table 2):"]
    lines.append(f"{'model':<{width}}{'component':<11}" + _cells(AGAINST, AGAINST.headings))
    for name, component, values in against_rows(results):
        lines.append(f"{name:<{width}}{component:<11}" + _numbers(AGAINST, values))
    return lines


def _name_width(results: list[dict]) -> int:
    return max(len("model"), *(len(result["name"]) for result in results)) + 2


def _numbers(part: Part, values: list[float | None]) -> str:
    return _cells(part, map(number, values[part.place]))


def _cells(part: Part, cells: Iterable[str]) -> str:
    widths = [max(9, len(heading) + 2) for heading in part.headings]
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
