"""The report: one HTML file that holds its figures and needs nothing else."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from diverse_mha.analysis.contradictions import contradictions
from diverse_mha.analysis.figures.style import COMPONENT_TITLES, data_uri
from diverse_mha.analysis.tables import (
    AGAINST,
    against_rows,
    comparisons,
    legend,
    number,
    parts_of,
    rows_of,
)

if TYPE_CHECKING:
    from diverse_mha.analysis.contradictions import contradictions
from diverse_mha.analysis.figures.style import Plot

PIXELS = 122  # of an inch of a figure: the widest ones fill the page
TEMPLATES = Path(__file__).parent / "templates"


def render(content: dict, sections: dict[str, list[tuple["Plot", bytes]]], settings: dict) -> str:
    """Lay out the page.

    Names of files, models and tokens may hold anything: the template escapes all of it.

    Args:
        content: ``subset``, ``data``, ``made`` and the results under ``models``.
        sections: figures by heading, and each as SVG.
        settings: what to say of how it was made, by heading.

    Returns:
        HTML, with the figures inside.
    """
    results = content["models"]
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["title_of"] = lambda name: COMPONENT_TITLES.get(name, name)
    number_of = itertools.count(1)
    shown = [
        (
            heading,
            [
                {
                    "number": next(number_of),
                    "name": plot.name,
                    "title": plot.title,
                    "caption": plot.caption,
                    "address": data_uri(svg),
                    "width": round(plot.figure.get_figwidth() * PIXELS),
                }
                for plot, svg in pictures
            ],
        )
        for heading, pictures in sections.items()
    ]
    models = [
        {
            "name": result["name"],
            "checkpoint": result["checkpoint"],
            "sha256": result["sha256"],
            "architecture": result["architecture"],
            "sentences": result["sentences"],
            "components": result["components"],
            "rows": _grouped(rows_of(result)),
        }
        for result in results
    ]
    return environment.get_template("report.html").render(
        subset=content["subset"],
        data=content["data"],
        settings=settings,
        models=models,
        parts=parts_of(results[0]),
        comparisons=comparisons(results),
        contradictions=contradictions(results),
        against=content.get("against"),
        against_headings=AGAINST.headings,
        against_rows=against_rows(results),
        sections=shown,
        legend=legend(results[0]),
    )


def _grouped(rows: list[tuple]) -> list[tuple[str, list[tuple]]]:
    """Rows by component: its name, and layer and values of each."""
    groups: dict[str, list] = {}
    for component, layer, values in rows:
        groups.setdefault(component, []).append((layer, values))
    return list(groups.items())
