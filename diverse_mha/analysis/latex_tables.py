"""The tables of ``diverse-mha analyze`` for LaTeX: ``tables.tex``."""

from itertools import groupby

from diverse_mha.analysis.figures.style import COMPONENT_TITLES, file_name
from diverse_mha.analysis.tables import (
    AGAINST,
    against_rows,
    comparisons,
    legend,
    number,
    parts_of,
    rows_of,
    summary_rows,
)
from diverse_mha.common.tables import latex_table

HEAD = """% Tables of diverse-mha analyze, for \\usepackage{{booktabs}}.
% Made by: {command}
% {date}; diverse-mha {version}
"""


def latex_tables(content: dict) -> str:
    """Write every table of an analysis, each with a caption and a label.

    Labels: ``tab:heads-WHAT-PART`` of all models, with ``WHAT`` one of cross, last, mean, and
    ``PART`` one of similarity, scores; ``tab:heads-layers-PART-MODEL`` of one;
    ``tab:heads-against``. What the columns mean stands in the caption.

    Args:
        content: as in ``scores.json``.
    """
    results, made = content["models"], content["made"]
    where = f"Over {content['subset']} of {content['data']}."
    tables = [
        HEAD.format(
            command=made["command"].replace("\n", " "),
            date=made["date"],
            version=made["versions"].get("git_commit", made["versions"]["diverse_mha"]),
        )
    ]
    for name, title, rows in comparisons(results) if len(results) > 1 else ():
        for part in parts_of(results[0]):
            lines = [[model, *map(number, values[part.place])] for model, values in rows]
            caption = f"{title}. {where} {_meaning(results[0], part.headings)}"
            label = f"tab:heads-{name}-{part.name}"
            tables.append(latex_table(["model", *part.headings], [lines], caption, label))
    if "against" in content:
        rows = [
            [name, COMPONENT_TITLES[component], *map(number, values)]
            for name, component, values in against_rows(results)
        ]
        caption = f"Similarity of the last layers to those of {content['against']['name']}. {where}"
        headings = ["model", "component", *AGAINST.headings]
        tables.append(latex_table(headings, [rows], caption, "tab:heads-against", names=2))
    for result in results:
        tables += _of_model(result, where)
    return "\n".join(tables)


def _of_model(result: dict, where: str) -> list[str]:
    rows = rows_of(result)
    rows += [("all", label, v) for label, v in summary_rows(result).items() if label != "cross"]
    tables = []
    for part in parts_of(result):
        groups = []
        for component, own in groupby(rows, key=lambda row: row[0]):
            lines = [[layer, *map(number, values[part.place])] for _, layer, values in own]
            title = COMPONENT_TITLES.get(component, component)
            groups.append([[title if i == 0 else "", *line] for i, line in enumerate(lines)])
        caption = (
            f"{part.title}, by layer: {result['name']} ({result['architecture']}). {where} "
            f"{_meaning(result, part.headings)}"
        )
        label = f"tab:heads-layers-{part.name}-{file_name(result['name'])}"
        headings = ["component", "layer", *part.headings]
        tables.append(latex_table(headings, groups, caption, label, names=2))
    return tables


def _meaning(result: dict, headings: list[str]) -> str:
    """The lines of the legend that are about these columns, as sentences."""
    first = [heading.split(" i≠j")[0] for heading in headings]
    return " ".join(f"{line}." for line in legend(result) if line.startswith(tuple(first)))
