"""Report of an analysis: terminal tables, scores.json, CSV files and report.html (jinja2)."""

import base64
import hashlib
import itertools
import textwrap
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from diverse_mha.analysis.figures import Plot
from diverse_mha.analysis.findings import comparison_tables, headline
from diverse_mha.analysis.labels import COMPONENT_TITLES, unique_names
from diverse_mha.analysis.results import Analysis, Content, Model, PairMeasure, to_json
from diverse_mha.analysis.tables import (
    Table,
    against_table,
    heads_of,
    legend,
    model_tables,
    rows_of,
)
from diverse_mha.analysis.view import TOKENS
from diverse_mha.common.files import write_files, write_json, write_text
from diverse_mha.common.progress import with_progress
from diverse_mha.common.tables import Layout, csv_text, to_text

PIXELS = 122  # pixels per inch of a figure, so that the widest figures fill the page
TEMPLATES = Path(__file__).parent / "templates"


def render(
    content: Content, sections: dict[str, list[tuple[Plot, bytes]]], view: dict[str, Any]
) -> str:
    """Return the HTML page: tables, embedded figures by section, and the view of single heads.

    The template escapes names and tokens, which may contain HTML. The page's content security
    policy allows one script, by its hash, and no requests.
    """
    results, against = content.models, content.against
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {}  # the default would sort components by name
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


WIDTH = 80  # columns of a terminal
ALL = "All heads"  # title of the report's first section of figures


def format_tables(content: Content) -> str:
    """Return the tables of each model, and the tables that compare models, for a terminal."""
    results, lines = content.models, []
    for result in results:
        shape = "; ".join(
            f"{component} {entry.heads} heads, {entry.positions:,} positions"
            + (f", {sum(map(len, entry.pruned.values()))} heads pruned" if entry.pruned else "")
            for component, entry in result.components.items()
        )
        lines += [f"{result.name} ({result.architecture}), {content.subset}: {shape}", ""]
        lines += map(_text, model_tables(result))
    lines += map(_text, comparison_tables(results) if len(results) > 1 else [])
    if content.against:
        lines.append(_text(against_table(results, content.against["name"])))
    for line in legend(results):
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def _text(table: Table) -> str:
    lines = tuple(tuple(row) for group in table.groups for row in group)
    found = [line for text in table.findings for line in textwrap.wrap(text, WIDTH)]
    title = "\n".join([table.title, *found])
    return to_text(Layout(title, tuple(table.headings), lines, (), names=table.names)) + "\n"


def write_numbers(folder: Path, content: Content) -> None:
    """Write ``scores.json``, ``layers.csv`` and ``heads.csv``; remove an earlier ``report.html``.

    ``layers.csv`` has a row for each layer, with the columns of the tables. In the row with the
    mean of a component, ``layer`` is ``mean``. In rows with means over components, ``component``
    is ``all``. ``heads.csv`` has a row for each head.
    """
    (folder / "report.html").unlink(missing_ok=True)
    write_json(folder / "scores.json", to_json(content))
    layers, heads = [], []
    for result in content.models:
        model = {"model": result.name}
        for component, layer, row in rows_of(result):
            layers.append({**model, "component": component, "layer": layer, **row})
        heads += [{**model, **head} for head in heads_of(result)]
    for name, rows in (("layers", layers), ("heads", heads)):
        cells = [rows[0], *(row.values() for row in rows)]
        write_text(folder / f"{name}.csv", csv_text(cells))


def write_figures(folder: Path, content: Content, analyses: list[Analysis]) -> None:
    """Draw the figures with a progress bar, and write ``report.html``."""
    from diverse_mha.analysis.figures import FORMATS, render_plot
    from diverse_mha.analysis.view import view_data

    sections: dict[str, list[tuple[Plot, bytes]]] = {}
    for section, plot in with_progress(all_plots(content.models), "drawing", "figures"):
        pictures = render_plot(plot)
        write_files({folder / f"figures/{plot.name}.{end}": pictures[end] for end in FORMATS})
        sections.setdefault(section, []).append((plot, pictures["svg"]))
    write_text(folder / "report.html", render(content, sections, view_data(analyses)))


def all_plots(results: list[Model]) -> list[tuple[str, Plot]]:
    """Return (section of the report, figure) for every similarity that was measured."""
    from diverse_mha.analysis.figures import (
        MEASURES,
        colour_limit,
        comparison_maps,
        curves_of_models,
        heat_maps,
    )

    names = [result.name for result in results]
    measured: list[PairMeasure] = [m for m in MEASURES if m in results[0].summary]
    ends = {m: colour_limit(results, m) for m in measured}
    plots = [(ALL, curves_of_models(results))]
    if len(results) == 2:
        section = f"{names[0]} beside {names[1]}"
        first, second = results
        for m in measured:
            plots += [(section, plot) for plot in comparison_maps(first, second, m, ends[m])]
    for result in results:
        plots += [(result.name, heat_maps(result, m, ends[m])) for m in measured]
    plots = [(section, plot) for section, plot in plots if plot is not None]
    # Models such as a/b and a-b would give the same file name.
    files = unique_names([plot.name for _, plot in plots])
    return [(s, plot._replace(name=name)) for (s, plot), name in zip(plots, files, strict=True)]
