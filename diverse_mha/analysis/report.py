"""The report: one HTML file that holds its figures and needs nothing else."""

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from diverse_mha.analysis.figures.style import COMPONENT_TITLES, data_uri
from diverse_mha.analysis.tables import (
    AGAINST,
    against_rows,
    comparisons,
    headings_of,
    legend,
    number,
    rows_of,
)

if TYPE_CHECKING:
    from diverse_mha.analysis.figures.style import Plot

TEMPLATES = Path(__file__).parent / "templates"


def render(content: dict, pictures: list[tuple["Plot", bytes]], settings: dict) -> str:
    """Lay out the page.

    Names of files, models and tokens may hold anything: the template escapes all of it.

    Args:
        content: ``subset``, ``data`` and the results under ``models``.
        pictures: figures, and each as SVG.
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
    shown = [
        {"name": plot.name, "title": plot.title, "caption": plot.caption, "address": data_uri(svg)}
        for plot, svg in pictures
    ]
    models = [
        {
            "name": result["name"],
            "checkpoint": result["checkpoint"],
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
        headings=headings_of(results[0]),
        comparisons=comparisons(results),
        against=content.get("against"),
        against_headings=AGAINST.headings,
        against_rows=against_rows(results),
        figures=shown,
        legend=legend(results[0]),
    )


def _grouped(rows: list[tuple]) -> list[tuple[str, list[tuple]]]:
    """Rows by component: its name, and layer and values of each."""
    groups: dict[str, list] = {}
    for component, layer, values in rows:
        groups.setdefault(component, []).append((layer, values))
    return list(groups.items())
