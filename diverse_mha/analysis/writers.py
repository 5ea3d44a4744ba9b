"""The tables of ``diverse-mha analyze`` for a terminal, as CSV, and for LaTeX."""

import textwrap
from collections.abc import Mapping

from diverse_mha.analysis.importance_tables import heads_of, importance_legend, tables_of
from diverse_mha.analysis.names import COMPONENT_TITLES, apart
from diverse_mha.analysis.questions import comparison_tables
from diverse_mha.analysis.tables import (
    AGAINST_MEANING,
    Table,
    against_table,
    headings_of,
    legend,
    rows_of,
)
from diverse_mha.common.tables import Layout, csv_text, latex_table, to_text

WIDTH = 80  # of a terminal
HEAD = """% Tables of diverse-mha analyze, for \\usepackage{{booktabs}}.
% Made by: {command}
% {date}; diverse-mha {version}
"""


def format_tables(results: list[dict], subset: str, against: str | None = None) -> str:
    """Lay out the results of models for a terminal: the tables of each, and of all if several.

    ``against`` is the name of the model that the others were compared with, if one was.
    """
    lines = []
    for result in results:
        shape = "; ".join(
            f"{component} {entry['heads']} heads, {entry['positions']:,} positions"
            for component, entry in result["components"].items()
        )
        lines += [f"{result['name']} ({result['architecture']}), {subset}: {shape}", ""]
        lines += map(_text, tables_of(result))
    lines += map(_text, _of_several(results, against))
    for line in (
        *legend(results),
        *importance_legend(results),
        *([] if against is None else [AGAINST_MEANING]),
    ):
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def latex_tables(content: dict) -> str:
    """Write every table of an analysis, each with a caption and a label.

    Labels: ``tab:heads-compare-QUESTION`` of all models, with ``QUESTION`` one of outputs, places,
    sharpness, scores; ``tab:heads-layers-PART-MODEL`` of one, with ``PART`` one of similarity,
    entropy, peaks, scores; ``tab:heads-against``. What columns and rows mean stands in the caption.
    ``content`` is as in ``scores.json``.
    """
    results, made = content["models"], content["made"]
    where = f"Over {content['subset']} of {content['data']}."
    head = HEAD.format(
        command=made["command"].replace("\n", " "),
        date=made["date"],
        version=made["versions"].get("git_commit", made["versions"]["diverse_mha"]),
    )
    against = content.get("against", {}).get("name")
    tables = [(table, table.title) for table in _of_several(results, against, COMPONENT_TITLES)]
    for result in results:
        named = f"{result['name']} ({result['architecture']})"
        for table in tables_of(result, COMPONENT_TITLES):
            tables.append((table, f"{table.title}, by layer: {named}"))
    labels = apart([table.label for table, _ in tables])  # of models "a b" and "a-b"
    texts = [head]
    for (table, title), name in zip(tables, labels, strict=True):
        caption = " ".join([f"{title}.", where, *(f"{line}." for line in table.meanings)])
        label = f"tab:heads-{name}"
        texts.append(latex_table(table.headings, table.groups, caption, label, names=table.names))
    return "\n".join(texts)


def layers_csv(results: list[dict]) -> str:
    """Means by layer: ``model, component, layer`` and a column for every number of the tables.

    ``layer`` is a number, or ``mean``; ``component`` is ``all`` in the rows over all of them.
    """
    lines = [["model", "component", "layer", *headings_of(results[0])]]
    for result in results:
        lines += [[result["name"], part, layer, *row] for part, layer, row in rows_of(result)]
    return csv_text(lines)


def heads_csv(results: list[dict]) -> str:
    """Every head's ``model, component, layer, head``, and what was measured of it.

    That is ``entropy, share_above_0.95`` of its attention; ``importance`` with the ends of its
    interval, ``low`` and ``high``, and ``p_holm``; ``importance_gradient``.
    """
    columns = ["entropy", "share_above_0.95", "importance", "low", "high", "p_holm"]
    rows = []
    for result in results:
        important = {(h.component, h.layer, h.head): h for h in heads_of(result)}
        for component, entry in result["components"].items():
            for number, layer in entry["layers"].items():
                sharp = layer.get("entropy")
                for head in range(1, entry["heads"] + 1):
                    found = important.get((component, number, head))
                    own = (None,) * 5
                    if found:
                        ends = found.interval or (None, None)
                        own = (found.rise, *ends, found.p, found.gradient)
                    sharpness = (None, None)
                    if sharp:
                        keys = ("heads", "heads_share_above_0.95")
                        sharpness = (sharp[key][head - 1] for key in keys)
                    rows.append([result["name"], component, number, head, *sharpness, *own])
    names = ["model", "component", "layer", "head", *columns, "importance_gradient"]
    kept = [place for place in range(len(names)) if any(row[place] is not None for row in rows)]
    return csv_text([[line[place] for place in kept] for line in [names, *rows]])


def _of_several(
    results: list[dict], against: str | None, titles: Mapping[str, str] | None = None
) -> list[Table]:
    tables = comparison_tables(results) if len(results) > 1 else []
    return tables if against is None else [*tables, against_table(results, against, titles)]


def _text(table: Table) -> str:
    lines = tuple(tuple(row) for group in table.groups for row in group)
    found = [line for text in table.findings for line in textwrap.wrap(text, WIDTH)]
    title = "\n".join([table.title, *found])
    layout = Layout(title, tuple(table.headings), lines, (), names=table.names)
    return to_text(layout) + "\n"
