"""The papers' figures, from the numbers of their tables and the heads of their models.

A table of ``tables/*.toml`` with ``draw`` is a figure. It has runs like any table, and this module
draws their results. A figure is written as PNG, SVG and ``.points.csv``, the numbers in the figure.
"""

import logging
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from diverse_mha.analysis.figures import (
    COLOURS,
    LINES,
    MARKERS,
    STYLE,
    Plot,
    colour_limit,
    curve_of,
    fewer_colours,
    heat_maps,
    new_figure,
    render_plot,
)
from diverse_mha.analysis.labels import COMPONENT_TITLES
from diverse_mha.analysis.results import Component, Divergence, Model, Svcca
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files
from diverse_mha.common.tables import csv_text
from experiments.papers import Table

SENTENCE_WORDS = range(6, 13)  # length of the sentence whose attention is drawn
Value = tuple[float | None, float | None, float | None]  # ours, its spread over seeds, the paper's
Points = Sequence[tuple[float, Value]]


@dataclass(frozen=True, eq=False)
class RowData:
    """Data of a table's row, for a figure."""

    name: str  # name on the command line
    label: str  # name in the paper
    values: Mapping[str, Value] = field(default_factory=dict)  # column -> value
    #: Column -> a model's entry in the output of ``diverse-mha analyze``, or None without output.
    heads: Mapping[str, dict | None] = field(default_factory=dict)
    model: tuple[Path, Path] | None = None  # checkpoint and data of the first column's run


class Drawn(NamedTuple):
    """A picture of a figure."""

    figure: Figure
    numbers: list[list]  # lines of the CSV file, the headings first
    row: str = ""  # name of the table's row, if each row has its own picture
    title: str = ""  # title of this picture


def draw(
    table: Table, rows: Sequence[RowData], caption: str, folder: Path, name: str
) -> list[Path]:
    """Draw a figure from the rows that have results, and write its files NAME.*."""
    for library in ("matplotlib", "PIL"):  # both log every step
        logging.getLogger(library).setLevel(logging.WARNING)
    if table.draw in RUNS_MODELS and not any(row.model for row in rows):
        raise UserError(
            "no checkpoint to draw from (published runs have none); rename the folders of these "
            "runs, and give the command again to train them"
        )
    files: dict[Path, bytes] = {}
    with matplotlib.rc_context(STYLE):
        for figure, numbers, row, title in KINDS[table.draw](table, rows):
            if len(numbers) == 1:  # only the headings
                continue
            width = int(16 * figure.get_size_inches()[0])  # letters in a line of the caption
            text = textwrap.fill((f"{title}. " if title else "") + caption, width)
            figure.supxlabel(text, fontsize=6, color="#555555")
            stem = f"{name}-{row}" if row else name
            for ending, content in render_plot(Plot(stem, "", "", figure), ("png", "svg")).items():
                if ending == "png":  # a scale of colours needs all that a palette holds
                    content = fewer_colours(content, 256 if table.draw in SCALES else 64)
                files[folder / f"{stem}.{ending}"] = content
            files[folder / f"{stem}.points.csv"] = csv_text(numbers).encode()
    if not files:
        raise UserError(
            "no heads are measured, so there is nothing to draw; give the command without "
            "--collect, and with another --out if the runs are published ones without checkpoints"
        )
    write_files(files)
    return [*files]


def look(number: int) -> dict:
    """Return the style of the nth line. Styles differ even in black and white."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
        "linewidth": 1.5,
        "markersize": 4,
    }


def _line_panels(panels: Mapping[str, Mapping[str, Points]], label: str) -> Figure:
    """Draw a panel for each title with a line for each name; the paper's values are dotted."""
    figure = new_figure(1.2 + 3.2 * len(panels), 3.1)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for number, (name, points) in enumerate(lines.items()):
            ours = [
                (x, value, spread or 0) for x, (value, spread, _) in points if value is not None
            ]
            papers = [(x, v) for x, (_, _, v) in points if v is not None]
            if ours:
                x, value, spread = zip(*ours, strict=True)
                error = spread if any(spread) else None  # one seed has no spread
                axis.errorbar(x, value, error, label=name, capsize=2, **look(number))
            if papers:
                style = {"linestyle": ":", "alpha": 0.6, "markerfacecolor": "none"}
                style = look(number) | style | {"label": f"{name}, paper"}
                axis.plot(*zip(*papers, strict=True), **style)
        axis.set_title(title)
        axis.set_xlabel(label)
    axes[-1].legend(frameon=False, fontsize=7)
    return figure


def lines_by_column(table: Table, rows: Sequence[RowData]) -> Iterator[Drawn]:
    """Draw a line for each row over columns with numbers as headings (Li et al. 2021, Fig. 4)."""
    lines = {row.label: [(float(c), v) for c, v in row.values.items()] for row in rows}
    figure = _line_panels({"": lines}, "number of operators")
    figure.axes[0].set_ylabel(table.axis)
    figure.axes[0].xaxis.get_major_locator().set_params(integer=True)
    numbers = [[row.label, *(_rounded(v[0]) for v in row.values.values())] for row in rows]
    yield Drawn(figure, [["row", *table.columns], *numbers])


def lines_by_row(table: Table, rows: Sequence[RowData]) -> Iterator[Drawn]:
    """Draw a line for each column over the number of heads of the rows (Zheng et al. 2021, Fig. 3).

    Columns that end with the same word share a panel.
    """
    heads = [int(row.label.split()[0]) for row in rows]
    panels: dict[str, dict[str, Points]] = {}
    for column in table.columns:
        name, _, score = column.rpartition(" ")
        values = [row.values[column] for row in rows]
        panels.setdefault(score, {})[name] = [*zip(heads, values, strict=True)]
    figure = _line_panels(panels, "heads")
    for axis in figure.axes:
        axis.set_xscale("log", base=2)
        axis.set_xticks(heads, heads)
    numbers = [["heads", *table.columns, *(f"{column}, paper" for column in table.columns)]]
    for count, row in zip(heads, rows, strict=True):
        values = [row.values[column] for column in table.columns]
        numbers.append([count, *(_rounded(v[0]) for v in values), *(v[2] for v in values)])
    yield Drawn(figure, numbers)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def coefficient_curves(table: Table, rows: Sequence[RowData]) -> Iterator[Drawn]:
    """Draw sorted SVCCA coefficients (Yun et al. 2021, Figs. 2 to 4).

    If the table has ``panels``, a row is a line: the mean over the pairs of heads in the last
    measured layer, of the encoder-decoder attention if the model has one. Otherwise a component is
    a panel, and a column is a line: the coefficients against another model.
    """
    panels: dict[str, list[tuple[str, np.ndarray]]] = {}
    if table.panels:
        known = {row.name: row for row in rows}
        for title, names in table.panels.items():
            own = [known[name] for name in names if name in known]
            curves = [(row.label, _between_heads(next(iter(row.heads.values())))) for row in own]
            panels[title] = [(label, curve) for label, curve in curves if len(curve)]
    else:
        for component in ("encoder", "decoder", "cross"):
            heads = rows[0].heads
            curves = [(column, _against(model, component)) for column, model in heads.items()]
            panels[COMPONENT_TITLES[component]] = [(c, curve) for c, curve in curves if len(curve)]
    figure = new_figure(2.9 * len(panels), 3.1)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    numbers = [["panel", "line", "number", "coefficient"]]
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for number, (label, curve) in enumerate(curves):
            x = np.arange(1, len(curve) + 1)
            style = look(number) | {"markevery": max(1, len(curve) // 6)}
            axis.plot(x, curve, label=label, **style)
            numbers += [[title, label, n, round(float(c), 5)] for n, c in enumerate(curve, 1)]
        axis.set_title(title)
        axis.set_xlabel("number of the coefficient")
        axis.set_ylim(0, 1.02)
        axis.xaxis.get_major_locator().set_params(integer=True)
        if curves:
            axis.legend(frameon=False, fontsize=7, loc="best")
    axes[0].set_ylabel("canonical correlation")
    yield Drawn(figure, numbers)


def _read(content: dict, label: str) -> Model:
    """Return the parts of a model's entry in ``scores.json`` that figures need."""
    kinds = {"jsd": Divergence, "svcca": Svcca}
    components = {
        name: Component(
            entry["heads"],
            entry["positions"],
            {
                number: {
                    measure: layer[measure] and kind(**layer[measure])
                    for measure, kind in kinds.items()
                    if measure in layer
                }
                for number, layer in entry["layers"].items()
            },
        )
        for name, entry in content["components"].items()
    }
    return Model(label, content["checkpoint"], content["architecture"], 0, components, {})


def _between_heads(content: dict | None) -> np.ndarray:
    if content is None:
        return np.array([])
    components = _read(content, "").components
    entry = components.get("cross") or next(iter(components.values()))
    return curve_of([*entry.layers.values()][-1])


def _against(model: dict | None, component: str) -> np.ndarray:
    entry = ((model or {}).get("against") or {}).get(component) or {}
    return np.array(entry.get("coefficients") or [])


def divergence_maps(table: Table, rows: Sequence[RowData]) -> Iterator[Drawn]:
    """Draw the JSD of every pair of heads by layer, one picture for each row (Zheng et al. 2021).

    All rows share one scale of colours.
    """
    models = {row: next(iter(row.heads.values())) for row in rows}
    models = {row: _read(model, row.label) for row, model in models.items() if model}
    end = colour_limit([*models.values()], "jsd")
    for row, model in models.items():
        plot = heat_maps(model, "jsd", end)
        if plot is None:  # a single head has no pairs
            continue
        numbers = [["component", "layer", "head", "other head", "JSD (nats a sentence)"]]
        for component, entry in model.components.items():
            for layer, measured in entry.layers.items():
                for (i, j), value in np.ndenumerate(np.array(measured["jsd"].pairs)):
                    if i < j:
                        numbers.append([component, layer, i + 1, j + 1, round(float(value), 4)])
        yield Drawn(plot.figure, numbers, row.name, plot.title)


def head_points(table: Table, rows: Sequence[RowData]) -> Iterator[Drawn]:
    """Draw the mean output of each encoder head in two dimensions (Li et al. 2021, Fig. 3).

    As in section 4.1.2.3 of the paper, outputs are averaged over all words and layers, so each head
    has one vector. t-SNE puts the vectors of all models into one plane. A row is a panel.
    """
    from sklearn.manifold import TSNE

    from diverse_mha.analysis.heads import mean_outputs

    vectors = {row: mean_outputs(*row.model).numpy() for row in rows if row.model}
    every = np.concatenate([*vectors.values()])
    if len(every) < 4:
        raise UserError(f"{table.name}: t-SNE needs 4 heads or more, not {len(every)}")
    points = TSNE(
        perplexity=min(30.0, (len(every) - 1) / 3), init="pca", random_state=1
    ).fit_transform(every)
    figure = new_figure(2.3 * len(vectors), 2.6)
    axes = figure.subplots(1, len(vectors), squeeze=False, sharex=True, sharey=True)[0]
    numbers, start = [["row", "head", "x", "y"]], 0
    for number, (axis, (row, own)) in enumerate(zip(axes, vectors.items(), strict=True)):
        placed = points[start : start + len(own)]
        start += len(own)
        axis.scatter(*points.T, color="#dddddd", s=12)
        style = look(number)
        axis.scatter(*placed.T, color=style["color"], marker=style["marker"], s=28)
        for head, (x, y) in enumerate(placed, 1):
            axis.annotate(str(head), (x, y), xytext=(3, 3), textcoords="offset points", fontsize=6)
            numbers.append([row.label, head, round(float(x), 3), round(float(y), 3)])
        axis.set_title(row.label)
        axis.set_xticks([])
        axis.set_yticks([])
    yield Drawn(figure, numbers, title="Grey: heads of the other panels")


def encoder_attention(
    path: str, data: str, words: range, subset: str = "valid"
) -> tuple[list[str], int, np.ndarray]:
    """Return the attention of one subword in the encoder's last layer.

    The sentence is the first of the split whose number of subwords, without eos, is in ``words``.
    The subword is the longest of this sentence.

    Returns:
        The sentence's subwords, the index of the attending subword, and its weights (H, S).
    """
    import torch

    from diverse_mha.evaluation.models import open_models, translation_batch

    model = open_models(str(path), data, heads=True)
    task = model.task
    task.load_dataset(subset)
    dataset, dictionary = task.dataset(subset), task.source_dictionary
    for number in range(len(dataset)):
        tokens = [dictionary[int(n)] for n in dataset[number]["source"]][:-1]
        if len(tokens) in words:
            break
    else:
        raise UserError(f"{data}: {subset} has no sentence of {words[0]} to {words[-1]} subwords")
    tokens.append(dictionary.eos_word)
    query = max(range(len(tokens) - 1), key=lambda n: len(tokens[n].strip("@▁")))
    eos = task.target_dictionary.eos_index
    sample = translation_batch(task, [dataset[number]["source"].long()], [torch.tensor([eos])])
    layers = model.states(model.on_device(sample), ("weights",))["encoder"]
    return tokens, query, layers[-1].weights[0, :, query].float().cpu().numpy()


def attention_of_a_word(table: Table, rows: Sequence[RowData]) -> Iterator[Drawn]:
    """Draw what each head attends to from one word of a sentence (Yun et al. 2021, Fig. 1).

    The sentence is the first one of the validation set with 6 to 12 words. The word is the longest
    one in the sentence. The layer is the encoder's last. A row is a panel.
    """
    shown = {row: encoder_attention(*row.model, SENTENCE_WORDS) for row in rows if row.model}
    heights = [len(weights) for _, _, weights in shown.values()]
    figure = new_figure(6.4, 0.34 * sum(heights) + 1.1 * len(shown) + 0.3)
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    numbers = [["row", "word", "head", "attended to", "weight"]]
    for axis, (row, (words, query, weights)) in zip(axes, shown.items(), strict=True):
        image = axis.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(words)), words, rotation=45, ha="right", fontsize=7)
        axis.set_yticks(range(len(weights)), range(1, len(weights) + 1), fontsize=7)
        axis.set_ylabel("head")
        axis.set_title(f"{row.label}: attention of “{words[query]}”")
        numbers += [
            [row.label, words[query], head, word, round(float(weight), 4)]
            for head, line in enumerate(weights, 1)
            for word, weight in zip(words, line, strict=True)
        ]
    figure.colorbar(image, ax=list(axes), fraction=0.03, pad=0.02, label="weight")
    yield Drawn(figure, numbers)


#: Value of ``draw`` in a table -> function that draws this kind of figure.
KINDS: dict[str, Callable[[Table, Sequence[RowData]], Iterator[Drawn]]] = {
    "lines-by-column": lines_by_column,
    "lines-by-row": lines_by_row,
    "coefficient-curves": coefficient_curves,
    "divergence-maps": divergence_maps,
    "head-points": head_points,
    "attention-of-a-word": attention_of_a_word,
}
#: Kinds of figures that run the models.
RUNS_MODELS = ("head-points", "attention-of-a-word")
#: Kinds of figures with a scale of colours.
SCALES = ("divergence-maps", "attention-of-a-word")
