"""Draw one figure from its specification: ``python -m diverse_mha.training.reproduce.draw FOLDER``.

A module of its own because it runs in a process of its own: matplotlib, scikit-learn and, for
t-SNE, the models are kept out of the process that starts the runs.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

from diverse_mha.analysis.figures.curves import curves_of_models
from diverse_mha.analysis.figures.heat_maps import heat_maps
from diverse_mha.analysis.figures.style import (
    COLOURS,
    MARKERS,
    STYLE,
    Plot,
    drawn,
    new_figure,
)
from diverse_mha.analysis.names import file_name
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_files, write_text
from diverse_mha.common.tables import csv_text
from diverse_mha.training.reproduce.draw_study import draw_study

WARNING = {
    "smoke": "smoke scale: shows that it runs, and means nothing else",
    "small": "small scale: not the paper's corpus",
}


def main(words: Sequence[str]) -> int:
    """Draw the figure of the folder that the command line names."""
    folder = Path(words[0])
    spec = json.loads((folder / "figure.json").read_text(encoding="utf-8"))
    plots = _DRAWERS[spec["kind"]](spec, folder)
    if not plots:
        raise UserError(f"{folder}: there is nothing to draw; the runs have too few heads")
    for plot in plots:
        heading = [plot.title, *filter(None, [_warning(spec)])]
        plot.figure.suptitle("\n".join(heading), fontsize=8)
        for ending in ("svg", "png"):
            write_files({folder / f"{plot.name}.{ending}": drawn(plot, ending)})
    captions = dict.fromkeys(plot.caption for plot in plots)
    text = [f"**{spec['title']}**", *captions, *spec["notes"]]
    text += [f"![{plot.title}]({plot.name}.png)" for plot in plots]
    write_text(folder / "figure.md", "\n\n".join(text) + "\n")
    return 0


def _warning(spec: dict) -> str | None:
    """Return what to say of the scale; a study is at home on small corpora."""
    if spec["kind"] == "study" and spec["scale"] == "small":
        return None
    return WARNING.get(spec["scale"])


def _heads(curve: dict) -> dict:
    """Read what ``diverse-mha analyze`` wrote of a run, under the figure's label."""
    content = json.loads(Path(curve["heads"]).read_text(encoding="utf-8"))
    return content["models"][0] | {"name": curve["label"]}


def _heat_maps(spec: dict, folder: Path) -> list[Plot]:
    plots = [heat_maps(_heads(curve), "jsd") for curve in spec["curves"]]
    return [plot for plot in plots if plot is not None]


def _coefficients(spec: dict, folder: Path) -> list[Plot]:
    """Draw the encoder-decoder attention alone: the module of Yun et al. 2021's Figs. 3 and 4."""
    models = {curve["label"]: _heads(curve) for curve in spec["curves"]}
    for result in models.values():
        result["components"] = {"cross": result["components"]["cross"]}
    return _panels(spec, models)


def _coefficients_against(spec: dict, folder: Path) -> list[Plot]:
    models = {}
    for curve in spec["curves"]:
        result = _heads(curve)
        # In the form that pairs of heads have: one "pair", the two models.
        result["components"] = {
            component: {"layers": {"last": {"svcca": {"coefficients": {"": c["coefficients"]}}}}}
            for component, c in result["against"].items()
            if c["coefficients"]
        }
        models[curve["label"]] = result
    return _panels(spec, models)


def _panels(spec: dict, models: dict[str, dict]) -> list[Plot]:
    plots = []
    for title, labels in spec["panels"] or [["", list(models)]]:
        plot = curves_of_models([models[label] for label in labels if label in models])
        if plot is not None:
            name = file_name(f"{plot.name}{title and '-'}{title}").replace("=", "")
            heading = " ".join(filter(None, [title, plot.title]))
            plots.append(plot._replace(name=re.sub("-+", "-", name), title=heading))
    return plots


def _tsne(spec: dict, folder: Path) -> list[Plot]:
    from diverse_mha.analysis.collect import Selection
    from diverse_mha.analysis.figures.tsne import head_map
    from diverse_mha.analysis.run import analyze, open_models

    selection = Selection(components=("encoder",), measures=("cka",))
    paths = [curve["checkpoint"] for curve in spec["curves"]]
    models, _ = open_models(paths, spec["data"], selection)
    means = []
    for curve, loaded in zip(spec["curves"], models, strict=True):
        analysis = analyze(loaded, selection, name=curve["label"])
        means.append((curve["label"], analysis.head_means))
    plot = head_map(means)
    if plot is None:
        return []
    plot.figure.set_size_inches(5.4, 4.2)  # room for a legend of four models under one panel
    return [plot]


def _accuracy_by_length(spec: dict, folder: Path) -> list[Plot]:
    by_label = {}
    for curve in spec["curves"]:
        result = json.loads(Path(curve["folder"], "result.json").read_text(encoding="utf-8"))
        subsets = result["scores"]["accuracy"]["subsets"]
        by_label[curve["label"]] = {
            int(name.removeprefix("test")): subset["accuracy"]
            for name, subset in subsets.items()
            if re.fullmatch(r"test\d+", name)
        }
    lengths = sorted({length for curve in by_label.values() for length in curve})
    rows = [["operators", *by_label]]
    rows += [[n, *(curve.get(n, "") for curve in by_label.values())] for n in lengths]
    write_text(folder / "accuracy.csv", csv_text(rows))
    with matplotlib.rc_context(STYLE):
        figure = new_figure(4.6, 3.2)
        axis = figure.subplots()
        for number, (label, curve) in enumerate(by_label.items()):
            axis.plot(
                list(curve),
                list(curve.values()),
                color=COLOURS[number],
                marker=MARKERS[number],
                markersize=4,
                label=label,
            )
        axis.set_xlabel("number of operators")
        axis.set_ylabel("accuracy, %")
        axis.set_xticks(lengths)
        axis.legend(frameon=False, fontsize=8)
    caption = (
        "Accuracy of logical inference by the number of operators of the longer sentence (Li et "
        "al. 2021, Fig. 4); models are trained on up to six."
    )
    return [Plot("accuracy-by-length", "Logical inference", caption, figure)]


_DRAWERS = {
    "tsne": _tsne,
    "heat_maps": _heat_maps,
    "coefficients": _coefficients,
    "coefficients_against": _coefficients_against,
    "accuracy_by_length": _accuracy_by_length,
    "study": draw_study,
}


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
