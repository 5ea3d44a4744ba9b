"""Head pruning: ranks heads, zeroes the weakest in a checkpoint, and scores pruning curves."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, NamedTuple

import torch

from diverse_mha.analysis.importance import measure_importance
from diverse_mha.analysis.labels import short_names
from diverse_mha.analysis.results import ABLATION, GRADIENT
from diverse_mha.analysis.similarity import HeadsMeter
from diverse_mha.analysis.sites import Selection
from diverse_mha.attention.sites import Head, Site, heads_in
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_files, write_text
from diverse_mha.common.options import split_list
from diverse_mha.common.tables import Layout, csv_text, to_text
from diverse_mha.evaluation.comparison.runs import without_seed
from diverse_mha.evaluation.opener import Source, equal_models, named_file, open_heads
from diverse_mha.evaluation.protocol import AnyAdapter

if TYPE_CHECKING:
    from diverse_mha.analysis.figures import Plot

RANKINGS = {
    "importance": "least rise of the loss first",
    "gradient": "smallest gradient of a gate first",
    "similarity": "the less important head of the most similar pair in a layer (CKA)",
    "random": "random order from --seed",
}


def open_prunable(path: str, source: Source, *, cpu: bool) -> AnyAdapter:
    """Open a model. Raise ``UserError`` unless its heads can be zeroed."""
    (model,) = open_heads([path], source, cpu=cpu)
    model.check_prunable()
    return model


def count_of(sites: Sequence[Site], given: str, count: int | float, *, keep_one: bool) -> int:
    """Return the number of heads to remove.

    Args:
        sites: all modules of the model.
        given: option and value of the command line, for messages.
        count: a number of heads (int), or a share of all heads (float).
        keep_one: keep at least one head of every module.

    Raises:
        UserError: ``count`` is more than the number of removable heads.
    """
    total = len(heads_in(sites))
    most = total - (len(sites) if keep_one else 0)
    count = round(count * total) if isinstance(count, float) else count
    if count > most:
        beside = " with --keep-one" if keep_one else ""
        raise UserError(f"{given}: {count} of {total} heads; at most {most} can be pruned{beside}")
    return count


@dataclass(frozen=True)
class Ranking:
    """The order in which heads are removed."""

    by: str  # a key of ``RANKINGS``
    subset: str  # split to rank on
    max_tokens: int  # tokens in a batch
    steps: int = 1  # number of times that the remaining heads are ranked
    seed: int = 1  # random seed of ``random``
    keep_one: bool = False  # keep one head or more in every module


Unit = tuple[Head, ...]  # heads of a module that are removed together


def removals(
    model: AnyAdapter, count: int, ranking: Ranking, label: str = "", group: int | None = None
) -> Iterator[Head]:
    """Zero heads of a model one by one, in the order of the ranking.

    Args:
        model: the model, modified in place.
        count: number of heads to remove.
        ranking: how heads are ranked.
        label: name of the model in the progress bar.
        group: remove so many neighbouring heads together, ranked by the sum of their values, and as
            many from every module; None: remove any heads.

    Yields:
        Each removed head.
    """
    remaining, size = _units(model.sites, group or 1), group or 1
    for step in range(ranking.steps):
        units = count // size
        portion = units * (step + 1) // ranking.steps - units * step // ranking.steps
        if not portion:
            continue
        value_of, similar = _rank(model, ranking, label)
        values = {unit: sum(value_of[head] for head in unit) for unit in remaining}
        pairs = _pairs(remaining, similar)
        for _ in range(portion):
            free = _even(remaining) if group else remaining
            unit = _next(free, values, pairs, ranking.keep_one)
            remaining.remove(unit)
            for head in unit:
                model.zero(head)
                yield head


def _units(sites: Iterable[Site], size: int) -> list[Unit]:
    """Return the heads of all modules in groups of neighbours."""
    modules = [heads_in([site]) for site in sites]
    return [tuple(own[n : n + size]) for own in modules for n in range(0, len(own), size)]


def _even(remaining: list[Unit]) -> list[Unit]:
    """Return the units of the modules that have most units left."""
    left = Counter(unit[0][:2] for unit in remaining)
    return [unit for unit in remaining if left[unit[0][:2]] == max(left.values())]


def _pairs(
    units: list[Unit], similar: dict[tuple[Head, Head], float]
) -> dict[tuple[Unit, Unit], float]:
    """Return the mean similarity of the heads of two units, for all pairs of units."""
    unit_of = {head: unit for unit in units for head in unit}
    found: dict[tuple[Unit, Unit], list[float]] = {}
    for (one, two), value in similar.items():
        if one in unit_of and two in unit_of and unit_of[one] != unit_of[two]:
            found.setdefault((unit_of[one], unit_of[two]), []).append(value)
    return {pair: mean(values) for pair, values in found.items()}


def _rank(
    model: AnyAdapter, ranking: Ranking, label: str
) -> tuple[dict[Head, float], dict[tuple[Head, Head], float]]:
    """Return the values by which heads are ranked and, for similarity, the CKA of head pairs."""
    if ranking.by == "random":
        draw = random.Random(ranking.seed).random
        return {head: draw() for head in heads_in(model.sites)}, {}
    measure = GRADIENT if ranking.by == "gradient" else ABLATION
    selection = Selection(measures=(measure,), subset=ranking.subset, max_tokens=ranking.max_tokens)
    _, modules = measure_importance(model, selection, label)
    values = {
        Head(component, int(number), head): value
        for component, layers in modules.items()
        for number, layer in layers.items()
        if (found := layer.get(measure)) is not None
        for head, value in enumerate(found.heads, 1)
        if value is not None
    }
    return values, _similar(model, selection, label) if ranking.by == "similarity" else {}


def _similar(model: AnyAdapter, selection: Selection, label: str) -> dict[tuple[Head, Head], float]:
    meter = HeadsMeter(model.sites, ("cka",), selection.threshold)
    for batch in model.batches(selection.subset, selection.max_tokens, label=label):
        meter.update(model.states(batch, ("outputs",)))
    return {
        (Head(component, int(number), i + 1), Head(component, int(number), j + 1)): value
        for component, entry in meter.result().components.items()
        for number, layer in entry.layers.items()
        if (cka := layer.get("cka")) is not None
        for i, row in enumerate(cka.pairs)
        for j, value in enumerate(row)
        if i < j and value is not None
    }


def _next(
    remaining: list[Unit],
    values: dict[Unit, float],
    pairs: dict[tuple[Unit, Unit], float],
    keep_one: bool,
) -> Unit:
    """Return the weakest unit of the most similar pair or, if there are no pairs, of all units."""
    there = {*remaining}
    remaining_pairs = [(one, two) for one, two in pairs if one in there and two in there]
    if remaining_pairs:
        return min(max(remaining_pairs, key=pairs.__getitem__), key=values.__getitem__)
    modules = Counter(unit[0][:2] for unit in remaining)
    free = [unit for unit in remaining if not keep_one or modules[unit[0][:2]] > 1]
    return min(free, key=values.__getitem__)


@torch.no_grad()
def token_loss(model: AnyAdapter, subset: str, max_tokens: int, label: str) -> float:
    """Return the loss over a split in bits per token, or per example of a classifier.

    ``label`` names the progress bar.
    """
    total = count = 0.0
    for batch in model.batches(subset, max_tokens, label=label):
        found = model.losses(batch)
        total, count = total + float(found.losses.sum()), count + float(found.counts.sum())
    return total / count / math.log(2)


UNITS = {"nll": ("loss, bits per {unit}", 3), "bleu": ("sacreBLEU", 2)}  # label, decimals
Curves = dict[str, dict[str, list[float]]]  # model -> checkpoint -> score at each share


def read_shares(text: str) -> tuple[float, ...]:
    """Return the shares in ``--curve``, which must be in ascending order."""
    try:
        shares = [float(word) for word in split_list(text)]
    except ValueError:
        shares = []
    if not shares or sorted(set(shares)) != shares or not 0 <= shares[0] <= shares[-1] <= 1:
        raise UserError(f"--curve {text}: give increasing shares from 0 to 1, such as 0,0.2,0.4")
    return tuple(shares)


def name_checkpoints(arguments: list[str]) -> list[tuple[str, str]]:
    """Return (name, path) of each checkpoint; checkpoints of all seeds of a model share a name."""
    split = [("", "", x) if Path(x).exists() else x.partition("=") for x in arguments]
    paths = [path if equals else name or path for name, equals, path in split]
    shorts = short_names([*map(named_file, paths)])
    return [
        (name if equals else without_seed(short), path)
        for (name, equals, _), short, path in zip(split, shorts, paths, strict=True)
    ]


@dataclass(frozen=True)
class Curve:
    """Settings of a pruning curve, the scores of models as their heads are removed."""

    shares: tuple[float, ...]  # of all heads
    score: str  # a key of ``UNITS``
    score_subset: str  # split to score
    source: Source
    cpu: bool


def draw_curve(curve: Curve, ranking: Ranking, checkpoints: list[str], folder: Path) -> None:
    """Score every checkpoint at every share; print the table, and write table and figure."""
    from diverse_mha.analysis.analyze import check_libraries

    check_libraries()
    named = name_checkpoints(checkpoints)
    for name in dict.fromkeys(name for name, _ in named):
        for path, other in equal_models([path for of, path in named if of == name]):
            raise UserError(
                f"{path}: has the weights of {other}, so it is no further seed of {name}; name one "
                "of them"
            )
    found = [_scored(curve, ranking, path, name) for name, path in named]
    curves: Curves = {}
    for name, path, scores, _ in found:
        curves.setdefault(name, {})[path] = scores
    unit = found[-1].unit
    lines = [["model", "checkpoint", "share", curve.score]]
    for name, runs in curves.items():
        for path, scores in runs.items():
            lines += [[name, path, *pair] for pair in zip(curve.shares, scores, strict=True)]
    write_text(folder / "curve.csv", csv_text(lines))
    from diverse_mha.analysis.figures import FORMATS, render_plot

    pictures = render_plot(figure(curves, curve, unit))
    write_files({folder / f"curve.{ending}": pictures[ending] for ending in FORMATS})
    print(to_text(table(curves, curve, ranking, unit)))
    print(f"written: {folder}/curve.csv, .png, .svg and .pdf")


class Scored(NamedTuple):
    """The scores of a checkpoint as its heads are removed."""

    name: str  # of the model
    path: str
    scores: list[float]  # at each share
    unit: str  # name and unit of the scores


def _scored(curve: Curve, ranking: Ranking, path: str, name: str) -> Scored:
    """Score a checkpoint at each share."""
    model = open_prunable(path, curve.source, cpu=curve.cpu)
    if curve.score == "bleu":
        model.check_translates()
    counts = [
        count_of(model.sites, f"--curve {share:g}", share, keep_one=ranking.keep_one)
        for share in curve.shares
    ]
    removal = removals(model, counts[-1], ranking, name)
    pruned, scores = [], []
    for count in counts:
        pruned += [next(removal) for _ in range(count - len(pruned))]
        if curve.score == "nll":
            label = f"{name} {curve.score_subset}, {count} heads pruned"
            scores.append(token_loss(model, curve.score_subset, ranking.max_tokens, label))
        else:
            scores.append(model.bleu(pruned, curve.score_subset, cpu=curve.cpu))
    return Scored(name, path, scores, UNITS[curve.score][0].format(unit=model.unit))


def table(curves: Curves, curve: Curve, ranking: Ranking, unit: str) -> Layout:
    """Return a table with a row for each share and a column for each model.

    Cells are means over seeds, with the standard deviation; ``unit`` names the score.
    """
    digits, lines = UNITS[curve.score][1], []
    for index, share in enumerate(curve.shares):
        cells = [f"{share:g}"]
        for runs in curves.values():
            values = [scores[index] for scores in runs.values()]
            spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.{digits}f}{spread}")
        lines.append(tuple(cells))
    title = f"Heads pruned by {ranking.by}: {unit} on {curve.score_subset}"
    notes = [f"share: share of all heads that are pruned, ranked on {ranking.subset}"]
    notes += (
        ["±: standard deviation over seeds"] if any(len(x) > 1 for x in curves.values()) else []
    )
    return Layout(title, ("share", *curves), tuple(lines), tuple(notes))


def figure(curves: Curves, curve: Curve, unit: str) -> "Plot":
    """Draw each model's mean over seeds, with a band from the lowest to the highest seed."""
    import matplotlib

    from diverse_mha.analysis.figures import COLOURS, MARKERS, STYLE, Plot, new_figure

    with matplotlib.rc_context(STYLE):
        drawing = new_figure(5.2, 3.2)
        axis = drawing.subplots()
        for index, (name, runs) in enumerate(curves.items()):
            columns = list(zip(*runs.values(), strict=True))
            colour = COLOURS[index % len(COLOURS)]
            if len(runs) > 1:
                low, high = ([edge(column) for column in columns] for edge in (min, max))
                axis.fill_between(curve.shares, low, high, alpha=0.2, linewidth=0, color=colour)
            marker = MARKERS[index % len(MARKERS)]
            means = [mean(column) for column in columns]
            axis.plot(curve.shares, means, marker=marker, markersize=4, label=name, color=colour)
        axis.set_xlabel("share of heads pruned")
        axis.set_ylabel(unit)
        axis.legend(frameon=False, fontsize=8)
    return Plot("curve", "Scores as heads are pruned", "", drawing)
