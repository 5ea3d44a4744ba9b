"""Draws the papers' figures from the results and heads of runs."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

from diverse_mha.analysis.collect import Selection
from diverse_mha.analysis.figures.curves import curves_of_models
from diverse_mha.analysis.figures.heat_maps import heat_maps
from diverse_mha.analysis.figures.style import COLOURS, MARKERS, STYLE, Plot, drawn, new_figure
from diverse_mha.analysis.names import file_name
from diverse_mha.analysis.run import analyze, open_models
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files, write_text
from diverse_mha.common.tables import csv_text
from experiments import steps
from experiments.experiments import Figure, Item, Table
from experiments.fill import Choices, needs_of
from experiments.plan import Run
from experiments.printer import caveats
from experiments.runner import Runner

WARNING = {
    "smoke": "smoke scale: shows that it runs, and means nothing else",
    "small": "small scale: not the paper's corpus",
}
#: Caption of curves that compare two models.
BESIDE_SINGLE_HEAD = (
    "Canonical correlations between the leading directions of all heads' outputs side by side and "
    "those of the single-head model's, sorted (SVCCA, as in Fig. 2 of Yun et al. 2021), at the "
    "last layer of each component. Lower: the model answers less like the single-head one."
)


class Curve(NamedTuple):
    """One run in a figure."""

    label: str
    result: Mapping
    heads: Mapping  # the model's part of ``diverse-mha analyze``; empty if not needed
    checkpoint: Path
    data: Path


def draw(
    figure: Figure, choices: Choices, found: Mapping[Run, dict], runner: Runner, folder: Path
) -> bool:
    """Draw a figure of the finished runs into a folder; its page names missing curves.

    Returns:
        True if no curve is missing, or if results are collected.
    """
    curves = []
    needs = needs_of(figure, figure.rows, choices)
    for (label, _), need in zip(figure.curves, needs, strict=True):
        heads = runner.heads(need) if need.heads else {}
        if heads is None or not found.keys() >= set(need.runs):
            continue
        model = heads and heads["models"][0] | {"name": label}
        checkpoint = steps.checkpoint(need.run, runner.place)
        data = steps.data_folder(need.run, runner.place)
        curves.append(Curve(label, found[need.run], model, checkpoint, data))
    if not curves:
        if found:
            raise UserError("nothing to draw: no run is finished with its heads measured")
        print("nothing is finished yet\n", flush=True)
        return False
    match figure.measure:
        case None:
            plots = _tsne(curves, runner)
        case "jsd":
            maps = [heat_maps(curve.heads, "jsd") for curve in curves]
            plots = [plot for plot in maps if plot is not None]
        case "svcca":  # of the encoder-decoder attention alone, as in Yun et al. 2021
            cross = [{"cross": curve.heads["components"]["cross"]} for curve in curves]
            plots = _panels(figure, curves, cross)
        case "against.encoder":
            plots = _coefficients_against(figure, curves)
        case "accuracy":
            plots = _accuracy_by_length(curves, folder)
    missing = [label for label, _ in figure.curves if label not in {c.label for c in curves}]
    notes = [f"Missing, as not finished or not measured: {', '.join(missing)}."] if missing else []
    pictures = save(figure, choices, plots, folder, notes)
    said = f"written: {folder}: {', '.join(path.name for path in pictures)}\n"
    print(*notes, said, sep="\n", flush=True)
    return runner.collect or not missing


def save(
    item: Item, choices: Choices, plots: Sequence[Plot], folder: Path, notes: Sequence[str] = ()
) -> list[Path]:
    """Write the pictures and a page with all of them, replacing an earlier page and its pictures.

    Returns:
        The SVG files.
    """
    page = folder / "figure.md"
    if page.is_file():
        for name in re.findall(r"\]\(([^/()]+)\.png\)", page.read_text("utf-8")):
            for ending in ("svg", "png"):
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
        page.unlink()
    if not plots:
        raise UserError(f"{folder}: there is nothing to draw; the runs have too few heads")
    # A study is meant for small corpora, and its notes are under its table.
    study = isinstance(item, Table)
    warning = None if study and choices.scale == "small" else WARNING.get(choices.scale)
    trial = None if choices.updates is None else f"a trial of {choices.updates:,} updates"
    for plot in plots:
        plot.figure.suptitle("\n".join(filter(None, [plot.title, warning, trial])), fontsize=8)
        pictures = drawn(plot, ("svg", "png"))
        write_files({folder / f"{plot.name}.{end}": one for end, one in pictures.items()})
    text = [f"**{item.heading}**", *dict.fromkeys(plot.caption for plot in plots)]
    text += [*notes, *caveats(choices)]
    text += [] if study else item.notes
    text += [f"![{plot.title}]({plot.name}.png)" for plot in plots]
    write_text(page, "\n\n".join(text) + "\n")
    return sorted(folder / f"{plot.name}.svg" for plot in plots)


def _coefficients_against(figure: Figure, curves: Sequence[Curve]) -> list[Plot]:
    def last(coefficients: Sequence[float]) -> dict:
        # In the form of pairs of heads: one "pair", the two models.
        layer = {"svcca": {"coefficients": {"": coefficients}}}
        return {"depth": "last", "layers": {"last": layer}}

    pairs = [
        {
            component: last(c["coefficients"])
            for component, c in curve.heads["against"].items()
            if c["coefficients"]
        }
        for curve in curves
    ]
    return [plot._replace(caption=BESIDE_SINGLE_HEAD) for plot in _panels(figure, curves, pairs)]


def _panels(figure: Figure, curves: Sequence[Curve], components: Sequence[dict]) -> list[Plot]:
    """Draw curves of coefficients, those that share a panel in one picture."""
    models = {
        curve.label: curve.heads | {"components": shown}
        for curve, shown in zip(curves, components, strict=True)
    }
    plots = []
    for title, labels in figure.panels or [("", tuple(models))]:
        plot = curves_of_models([models[label] for label in labels if label in models])
        if plot is not None:
            name = file_name(f"{plot.name}{title and '-'}{title}").replace("=", "")
            heading = " ".join(filter(None, [title, plot.title]))
            plots.append(plot._replace(name=re.sub("-+", "-", name), title=heading))
    return plots


def _tsne(curves: Sequence[Curve], runner: Runner) -> list[Plot]:
    if runner.collect:
        raise UserError(
            "left out: it is drawn from what is measured now, and --collect measures nothing"
        )
    from diverse_mha.analysis.figures.tsne import head_map  # which takes scikit-learn

    selection = Selection(components=("encoder",), measures=("cka",))
    paths, data = [str(curve.checkpoint) for curve in curves], str(curves[0].data)
    models, _ = open_models(paths, data, selection, cpu=runner.fork)
    means = [
        (curve.label, analyze(loaded, selection, name=curve.label).head_means)
        for curve, loaded in zip(curves, models, strict=True)
    ]
    plot = head_map(means)
    if plot is None:
        return []
    plot.figure.set_size_inches(5.4, 4.2)  # room for a legend of four models under one panel
    return [plot]


def _accuracy_by_length(curves: Sequence[Curve], folder: Path) -> list[Plot]:
    by_label = {
        curve.label: {
            int(name.removeprefix("test")): subset["accuracy"]
            for name, subset in curve.result["scores"]["accuracy"]["subsets"].items()
            if re.fullmatch(r"test\d+", name)
        }
        for curve in curves
    }
    lengths = sorted({length for curve in by_label.values() for length in curve})
    rows = [["operators", *by_label]]
    rows += [[n, *(curve.get(n, "") for curve in by_label.values())] for n in lengths]
    write_text(folder / "accuracy.csv", csv_text(rows))
    with matplotlib.rc_context(STYLE):
        picture = new_figure(4.6, 3.2)
        axis = picture.subplots()
        looks = zip(COLOURS, MARKERS, strict=True)
        for (label, curve), (colour, marker) in zip(by_label.items(), looks, strict=False):
            style = {"color": colour, "marker": marker, "markersize": 4}
            axis.plot(list(curve), list(curve.values()), label=label, **style)
        axis.set_xlabel("number of operators")
        axis.set_ylabel("accuracy, %")
        axis.set_xticks(lengths)
        axis.legend(frameon=False, fontsize=8)
    caption = (
        "Accuracy of logical inference by the number of operators of the longer sentence (Li et "
        "al. 2021, Fig. 4); models are trained on up to six."
    )
    return [Plot("accuracy-by-length", "Logical inference", caption, picture)]
