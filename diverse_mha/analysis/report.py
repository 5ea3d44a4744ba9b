"""The report: one HTML file that holds its figures and needs nothing else."""

import base64
import hashlib
import itertools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from diverse_mha.analysis.figures.style import Plot
from diverse_mha.analysis.findings import comparison_tables, headline
from diverse_mha.analysis.names import COMPONENT_TITLES
from diverse_mha.analysis.tables import against_table, legend, model_tables
from diverse_mha.analysis.view import TOKENS

PIXELS = 122  # an inch of a figure; the widest fill the page
TEMPLATES = Path(__file__).parent / "templates"


def render(content: dict, sections: dict[str, list[tuple[Plot, bytes]]], view: dict) -> str:
    """Lay out the page: the numbers, figures by section, and the view of single heads.

    Names of files, models and tokens may hold anything: the template escapes all of it, and the
    page's policy lets no script run but ours, and nothing be fetched.

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
    environment.policies["json.dumps_kwargs"] = {}  # no sorting of components by name
    environment.filters["title_of"] = lambda name: COMPONENT_TITLES.get(name, name)
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode("ascii")
    script = (TEMPLATES / "view.js").read_text(encoding="utf-8")
    number = itertools.count(1)
    numbered = [
        (heading, [(next(number), *figure) for figure in figures])
        for heading, figures in sections.items()
    ]
    return environment.get_template("report.html").render(
        content=content,
        headline=headline(results),
        view=view,
        script=Markup(script),
        digest=hashlib.sha256(script.encode()).digest(),
        tokens=TOKENS,
        models=[(result, model_tables(result)) for result in results],
        comparisons=comparison_tables(results) if len(results) > 1 else [],
        against_table=against and against_table(results, against["name"]),
        sections=numbered,
        pixels=PIXELS,
        legend=legend(results),
    )
