"""Draws the papers' figures of the heads of finished runs."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from diverse_mha.analysis.collect import Selection
from diverse_mha.analysis.figures.curves import curves_of_models
from diverse_mha.analysis.figures.heat_maps import heat_maps
from diverse_mha.analysis.figures.style import Plot, drawn
from diverse_mha.analysis.names import file_name
from diverse_mha.analysis.run import Analysis, analyze, open_models
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files, write_text
from experiments import steps
from experiments.experiments import Figure, Item
from experiments.fill import Choices, needs_of
from experiments.plan import Run
from experiments.printer import caveats
from experiments.runner import Runner

#: By measure of a figure: what to measure; None has all components and layers.
SELECTIONS = {
    "jsd": Selection(measures=("jsd",)),
    "tsne": Selection(("encoder",), measures=("cka",)),
    "svcca": Selection(("cross",), "last", ("svcca",)),  # as in Yun et al. 2021, section 5.2
    "against": Selection(None, "last", ("svcca",)),
}
#: Caption of curves that compare two models.
BESIDE_SINGLE_HEAD = (
    "Canonical correlations between the leading directions of all heads' outputs side by side and "
    "those of the single-head model's, sorted (SVCCA, as in Fig. 2 of Yun et al. 2021), at the "
    "last layer of each component. Lower: the model answers less like the single-head one."
)


def draw(
    figure: Figure, choices: Choices, found: Mapping[Run, dict], runner: Runner, folder: Path
) -> bool:
    """Measure the finished runs of a figure and draw it; its page names missing curves.

    Returns:
        True if no curve is missing, or if results are collected.
    """
    needs = zip(figure.curves, needs_of(figure, figure.rows, choices), strict=True)
    there = {label: need for (label, _), need in needs if found.keys() >= set(need.runs)}
    if not there:
        print("nothing is finished yet\n", flush=True)
        return False
    first, selection = next(iter(there.values())), SELECTIONS[figure.measure]
    paths = [str(steps.checkpoint(need.run, runner.place)) for need in there.values()]
    data = str(steps.data_folder(first.run, runner.place))
    other = first.against and str(steps.checkpoint(first.against, runner.place))
    models, against = open_models(paths, data, selection, against=other, cpu=runner.fork)
    analyses = [
        analyze(loaded, selection, name=label, against=against)
        for label, loaded in zip(there, models, strict=True)
    ]
    missing = [label for label, _ in figure.curves if label not in there]
    notes = [f"Missing, as not finished: {', '.join(missing)}."] if missing else []
    pictures = save(figure, choices, plots_of(figure, analyses), folder, [*notes, *figure.notes])
    print(*notes, f"written: {', '.join(map(str, pictures))}\n", sep="\n", flush=True)
    return runner.collect or not missing


def save(
    item: Item, choices: Choices, plots: Sequence[Plot], folder: Path, notes: Sequence[str] = ()
) -> list[Path]:
    """Write the pictures and a page with all of them, and return the SVG files."""
    if not plots:
        raise UserError(f"{folder}: there is nothing to draw; the runs have too few heads")
    for plot in plots:
        plot.figure.suptitle(plot.title, fontsize=8)
        pictures = drawn(plot, ("svg", "png"))
        write_files({folder / f"{plot.name}.{end}": one for end, one in pictures.items()})
    text = [f"**{item.heading}**", *dict.fromkeys(plot.caption for plot in plots)]
    text += [*notes, *caveats(choices)]
    text += [f"![{plot.title}]({plot.name}.png)" for plot in plots]
    write_text(folder / "figure.md", "\n\n".join(text) + "\n")
    return sorted(folder / f"{plot.name}.svg" for plot in plots)


def plots_of(figure: Figure, analyses: Sequence[Analysis]) -> list[Plot]:
    """Return the pictures of a figure."""
    results = [analysis.result for analysis in analyses]
    if figure.measure == "tsne":
        from diverse_mha.analysis.figures.tsne import head_map  # which takes scikit-learn

        plots = [head_map([(a.result["name"], a.head_means) for a in analyses])]
    elif figure.measure == "jsd":
        plots = [heat_maps(result, "jsd") for result in results]
    elif figure.measure == "against":
        curves = curves_of_models([result | {"components": _against(result)} for result in results])
        plots = [curves and curves._replace(caption=BESIDE_SINGLE_HEAD)]
    else:
        plots = [_panel(title, labels, results) for title, labels in figure.panels]
    return [plot for plot in plots if plot is not None]


def _against(result: Mapping) -> dict:
    """Return the coefficients against the other model in the form of a pair of heads."""
    return {
        component: {"depth": "last", "layers": {"last": {"svcca": {"coefficients": {"": c}}}}}
        for component, found in result["against"].items()
        if (c := found["coefficients"])
    }


def _panel(title: str, labels: Sequence[str], results: Sequence[dict]) -> Plot | None:
    """Draw the curves that share a panel."""
    plot = curves_of_models([result for result in results if result["name"] in labels])
    if plot is None:
        return None
    name = file_name(f"{plot.name}-{title}").replace("=", "")
    return plot._replace(name=re.sub("-+", "-", name), title=f"{title} {plot.title}")
