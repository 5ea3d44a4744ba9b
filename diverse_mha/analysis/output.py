"""Writes an analysis into a folder: numbers, figures and a page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from diverse_mha.analysis.names import apart
from diverse_mha.analysis.writers import heads_csv, latex_tables, layers_csv
from diverse_mha.common.files import write_files, write_json, write_text
from diverse_mha.common.progress import shown

ALL = "All heads"  # the report's first section of figures

if TYPE_CHECKING:
    from diverse_mha.analysis.figures.style import Plot
    from diverse_mha.analysis.run import Analysis


def write_numbers(folder: Path, content: dict) -> None:
    """Write ``scores.json``, the CSV files and ``tables.tex``; remove what an earlier run drew.

    Args:
        folder: made if it is not there; files of the same names are replaced, and figures that
            its ``scores.json`` says an earlier run drew are removed.
        content: what goes into the JSON, with the results under ``models``.
    """
    for path in (folder / "report.html", *_earlier_figures(folder)):
        path.unlink(missing_ok=True)
    write_json(folder / "scores.json", {**content, "figures": []})
    results = content["models"]
    write_text(folder / "layers.csv", layers_csv(results))
    if {"entropy", "importance", "importance-gradient"} & results[0]["summary"].keys():
        write_text(folder / "heads.csv", heads_csv(results))
    else:
        (folder / "heads.csv").unlink(missing_ok=True)
    write_text(folder / "tables.tex", latex_tables(content))


def write_figures(folder: Path, content: dict, analyses: list["Analysis"], settings: dict) -> None:
    """Draw the figures, showing progress, and write ``report.html``.

    ``settings`` say how it was made, by heading.
    """
    from diverse_mha.analysis.figures.style import FORMATS, drawn
    from diverse_mha.analysis.report import render
    from diverse_mha.analysis.view import view_data

    plots = all_plots(analyses)
    drawings = [f"{plot.name}.{ending}" for _, plot in plots for ending in FORMATS]
    write_json(folder / "scores.json", {**content, "figures": drawings})
    sections: dict[str, list] = {}
    for section, plot in shown(plots, "drawing", "figures"):
        pictures = drawn(plot)
        write_files({folder / f"figures/{plot.name}.{end}": pictures[end] for end in FORMATS})
        if section is not None:
            sections.setdefault(section, []).append((plot, pictures["svg"]))
    view = view_data(analyses) if analyses[0].attention else None
    write_text(folder / "report.html", render(content, sections, settings, view))


def _earlier_figures(folder: Path) -> list[Path]:
    """Return the existing figures of an earlier run."""
    try:
        names = json.loads((folder / "scores.json").read_text("utf-8"))["figures"]
        paths = [folder / "figures" / Path(name).name for name in names]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def all_plots(analyses: list["Analysis"]) -> list[tuple[str | None, "Plot"]]:
    """Every figure that there is something to draw for, with its section of the report.

    What the report's view of single heads shows has no section there.
    """
    from diverse_mha.analysis.figures.beside import beside_maps
    from diverse_mha.analysis.figures.curves import curves_of_layers, curves_of_models
    from diverse_mha.analysis.figures.heat_maps import MEASURES, heat_maps
    from diverse_mha.analysis.figures.importance import MEASURES as IMPORTANCE
    from diverse_mha.analysis.figures.importance import importance_map
    from diverse_mha.analysis.figures.tsne import head_map

    results = [analysis.result for analysis in analyses]
    names = [result["name"] for result in results]
    measured = [m for m in MEASURES if m in results[0]["summary"]]
    plots = [(ALL, head_map([(a.result["name"], a.head_means) for a in analyses]))]
    if len(results) > 1:
        plots.append((ALL, curves_of_models(results)))
    if len(results) == 2:
        section = f"{names[0]} beside {names[1]}"
        plots += [(section, plot) for m in measured for plot in beside_maps(*results, m)]
    for name, analysis in zip(names, analyses, strict=True):
        important = [m for m in IMPORTANCE if m in analysis.result["summary"]]
        section = None if analysis.attention else name
        plots += [(section, importance_map(analysis.result, m)) for m in important]
        plots += [(name, heat_maps(analysis.result, m)) for m in measured]
        plots.append((name, curves_of_layers(analysis.result)))
    return _with_own_names([(section, plot) for section, plot in plots if plot is not None])


def _with_own_names(plots: list[tuple[str | None, "Plot"]]) -> list[tuple[str | None, "Plot"]]:
    """Number what would be the same file: models ``a/b`` and ``a-b``, or letters of two cases."""
    names = apart([plot.name for _, plot in plots], str.lower)
    own = zip(plots, names, strict=True)
    return [(section, plot._replace(name=name)) for (section, plot), name in own]
