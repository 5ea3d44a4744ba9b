"""The report: one HTML file that holds its figures and needs nothing else."""

import itertools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from diverse_mha.analysis.figures.style import Plot, data_uri
from diverse_mha.analysis.importance_tables import importance_legend, tables_of
from diverse_mha.analysis.names import COMPONENT_TITLES
from diverse_mha.analysis.questions import comparison_tables
from diverse_mha.analysis.tables import against_table, legend

PIXELS = 122  # of an inch of a figure: the widest ones fill the page
TEMPLATES = Path(__file__).parent / "templates"


def render(content: dict, sections: dict[str, list[tuple[Plot, bytes]]], settings: dict) -> str:
    """Lay out the page.

    Names of files, models and tokens may hold anything: the template escapes all of it.

    Returns:
        HTML, with the figures inside.
    """
    results, against = content["models"], content.get("against")
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["title_of"] = lambda name: COMPONENT_TITLES.get(name, name)
    environment.filters["data_uri"] = data_uri
    number = itertools.count(1)
    numbered = [
        (heading, [(next(number), *figure) for figure in figures])
        for heading, figures in sections.items()
    ]
    return environment.get_template("report.html").render(
        subset=content["subset"],
        data=content["data"],
        settings=settings,
        models=[(result, tables_of(result, COMPONENT_TITLES)) for result in results],
        comparisons=comparison_tables(results) if len(results) > 1 else [],
        against=against,
        against_table=against and against_table(results, against["name"], COMPONENT_TITLES),
        sections=numbered,
        pixels=PIXELS,
        legend=[*legend(results), *importance_legend(results)],
    )
