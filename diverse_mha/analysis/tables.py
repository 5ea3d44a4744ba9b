"""Tables of ``diverse-mha analyze``: rows by module, head importance, legend.

``result`` is always a :class:`.results.Model`.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np

from diverse_mha.analysis.results import ABLATION, GRADIENT, Importance, Model, Score, value_of
from diverse_mha.analysis.similarity import SCORES, mean
from diverse_mha.evaluation.comparison.systems import p_value
from diverse_mha.measures.unbiased import positions_needed

Row = dict[str, float | None]  # heading -> value


class Column(NamedTuple):
    """A column of the tables."""

    heading: str
    measure: str  # as in ``--measures``
    key: str  # attribute of the measure; for disagreement the name of the score
    meaning: str = ""  # for the legend; empty if the column before explains it
    off_diagonal: bool = False  # disagreement over the pairs i != j


COLUMNS = (
    Column(
        "SVCCA", "svcca", "mean",
        "mean of the canonical correlations between the directions that cover the share "
        "--threshold of the variance of two heads; mean over pairs, 0 to 1, higher = more similar "
        "(Yun et al. 2021)",
    ),
    Column(
        "SVCCA top", "svcca", "top_mean",
        "mean of only the leading correlations, which cover 98 % of the sum of all, as in the code "
        "of Raghu et al. 2017; a second reading of Yun et al. 2021, section 3.2",
    ),
    Column(
        "CKA", "cka", "mean",
        "linear kernel; mean over pairs, 0 to 1, higher = more similar (Yun et al. 2021); with few "
        "positions, it is large even for independent heads",
    ),
    Column(
        "CKA unb.", "cka", "unbiased_mean",
        "CKA from unbiased estimates (Song et al. 2012), about 0 for independent heads",
    ),
    Column(
        "JSD", "jsd", "mean",
        "nats, summed over the queries of a sentence; higher = less similar (Zheng et al. 2021)",
    ),
    Column("JSD/row", "jsd", "per_row", "nats, mean over the queries, 0 to 0.693"),
    Column(
        "Entropy", "entropy", "mean",
        "of a query's attention weights, nats; mean over queries and heads; lower = sharper",
    ),
    Column(
        "Max>0.95", "entropy", "share_above",
        "share of the queries whose largest weight is above 0.95; mean over heads",
    ),
    Column(
        "Sub.", "disagreement", "subspace",
        "exp(D), where D is the disagreement of values over all pairs of heads including i = j "
        "(Li et al. 2018); Pos. takes attention weights and Out. takes outputs instead of values; "
        "0 to 1, higher = less similar; means are geometric means, exp of the mean D",
    ),
    Column("Pos.", "disagreement", "position"),
    Column("Out.", "disagreement", "output"),
    Column(
        "Sub. i≠j", "disagreement", "subspace",
        "Sub., Pos. and Out. without the pairs i = j; orthogonal heads give 1 in Sub. and Out. "
        "(Yun et al. 2021, section 6.2, most likely report this score: 0.999)", True,
    ),
    Column("Pos. i≠j", "disagreement", "position", "", True),
    Column("Out. i≠j", "disagreement", "output", "", True),
)  # fmt: skip
#: Title and measures of each table of a model; one table of all is too wide for a terminal.
PARTS = (
    ("Similarity and divergence, means over pairs of heads", ("svcca", "cka", "jsd")),
    ("Sharpness of attention, means over heads", ("entropy",)),
    ("Disagreement scores exp(D), over all pairs of heads and over i≠j", ("disagreement",)),
)
#: Key of :func:`summary_rows` -> modules that the mean is over.
OVER = {
    "mean": "all measured layers",
    "last": "last measured layers",
    "cross": "cross, last measured layer",
}
#: Comparison with another model: heading -> attribute of :class:`.results.Similarity`.
AGAINST = {
    "SVCCA together": "svcca",
    "SVCCA top": "svcca_top",
    "SVCCA each head": "svcca_each",
    "CKA together": "cka",
}
AGAINST_MEANING = (
    "Against another model: SVCCA (mean of the canonical correlations) and CKA (linear kernel) of "
    "the two models' outputs at the same positions, 0 to 1, higher = more similar; together: all "
    "heads concatenated; each head: one head against all heads of the other model, mean over "
    "heads; SVCCA top: as together, but only the leading correlations, which cover 98 % of the sum "
    "of all"
)
SHOWN = 10  # number of strongest, and of weakest, heads in a table
SIGNIFICANT = 0.05
BIASED = 0.05  # the tables warn if CKA exceeds its unbiased estimate by more than this
IMPORTANCE_MEANINGS = {
    ABLATION: "Rise: increase of the loss, in bits per {unit}, when {replaced}; 95 %: confidence "
    "interval over {summed}s; p: p-value, corrected by Holm's method for all measured heads "
    "(Michel et al. 2019; Voita et al. 2019)",
    GRADIENT: "|Gradient|: absolute gradient of each {summed}'s loss with respect to a gate on the "
    "head, summed over {summed}s, in bits per {unit} (Michel et al. 2019, Eq. 2)",
}
SUMMED = {"token": "sentence", "example": "example"}  # unit -> what has a loss of its own
REPLACED = {
    "zero": "the head's output is replaced by zeros",
    "mean": "the head's output is replaced by its mean over the split",
}


class Table(NamedTuple):
    """A table for the terminal and the report."""

    title: str
    names: int  # number of text columns at the left
    headings: list[str]
    groups: list[list[list[str]]]  # groups of rows of cells; an empty name means the name above
    findings: tuple[str, ...] = ()  # sentences above the table


#: A row of ``heads.csv``, with the values that were measured.
HeadRow = TypedDict(
    "HeadRow",
    {
        "component": str,
        "layer": str,
        "head": int,  # from 1
        "entropy": NotRequired[float | None],
        "share_above_0.95": NotRequired[float | None],
        "importance": NotRequired[float | None],
        "low": NotRequired[float | None],  # 95 % interval of the importance
        "high": NotRequired[float | None],
        "p_holm": NotRequired[float | None],
        "importance_gradient": NotRequired[float | None],
    },
)


def columns_of(result: Model, measures: tuple[str, ...] | None = None) -> list[Column]:
    """Return the columns of the measures that the result has; ``measures`` restricts them."""
    measured = {*result.summary, *(["disagreement"] if result.disagreement else [])}
    wanted = measured if measures is None else measured.intersection(measures)
    return [column for column in COLUMNS if column.measure in wanted]


def rows_of(result: Model) -> list[tuple[str, str, Row]]:
    """Return rows of (component, layer, values), for layers and for means.

    Each component has a row ``mean``. Component ``all`` has the rows ``last`` and ``mean`` of
    :func:`summary_rows`. The mean of scores exp(D) is exp of the mean D, as in Table 4 of Li et al.
    2018.
    """
    rows = []
    for component in result.components:
        layers = layers_of(result, component)
        rows += [(component, number, row) for number, row in layers.items()]
        rows.append((component, "mean", _average(layers.values())))
    over_all = summary_rows(result)
    return [*rows, *(("all", name, over_all[name]) for name in ("last", "mean"))]


def layers_of(result: Model, component: str) -> dict[str, Row]:
    """Return layer -> values of a component."""
    rows: dict[str, Row] = {}
    scores = result.disagreement[component] if result.disagreement else {}
    for index, (number, layer) in enumerate(result.components[component].layers.items()):
        row: Row = {}
        rows[number] = row
        for column in columns_of(result):
            if column.measure == "disagreement":
                score: Score = scores[column.key]
                if column.off_diagonal:
                    score = scores[column.key].off_diagonal
                row[column.heading] = score.layers[index]
            else:
                row[column.heading] = value_of(layer, column.measure, column.key)
    return rows


def summary_rows(result: Model) -> dict[str, Row]:
    """Return means over modules.

    ``mean`` is over all modules, ``last`` over the last measured layer of each component. ``cross``
    is the last measured encoder-decoder attention, if the model has any. Components with one head
    are left out, unless all have one head.
    """
    modules = [[*layers_of(result, component).values()] for component in compared(result)]
    rows = {
        "mean": _average(row for layers in modules for row in layers),
        "last": _average(layers[-1] for layers in modules),
    }
    if "cross" in result.components:
        rows["cross"] = [*layers_of(result, "cross").values()][-1]
    return rows


def compared(result: Model) -> list[str]:
    """Return the components that enter means over components (see :func:`summary_rows`)."""
    components = result.components
    return [part for part in components if components[part].heads > 1] or [*components]


def _average(rows: Iterable[Row]) -> Row:
    rows, scores = list(rows), {c.heading for c in COLUMNS if c.key in SCORES}
    averages: Row = {}
    for heading in rows[0]:
        values = [value for row in rows if (value := row[heading]) is not None]
        if heading in scores and values:
            with np.errstate(divide="ignore"):  # exp(D) of long sequences may be 0
                averages[heading] = float(np.exp(np.log(values).mean()))
        else:
            averages[heading] = mean(values)
    return averages


def heads_of(result: Model) -> list[HeadRow]:
    """Return a row for each head that is not pruned."""
    rows = []
    for component, entry in result.components.items():
        for number, layer in entry.layers.items():
            sharp, rises, slopes = layer.get("entropy"), layer.get(ABLATION), layer.get(GRADIENT)
            for head in range(entry.heads):
                if head + 1 in (entry.pruned or {}).get(number, ()):
                    continue
                row: HeadRow = {"component": component, "layer": number, "head": head + 1}
                if sharp:
                    row["entropy"] = sharp.heads[head]
                    row["share_above_0.95"] = sharp.heads_share_above[head]
                if rises:
                    row["importance"] = rises.heads[head]
                    row["low"], row["high"] = rises.intervals[head] or (None, None)
                    row["p_holm"] = rises.holm[head]
                if slopes:
                    row["importance_gradient"] = slopes.heads[head]
                rows.append(row)
    return rows


def model_tables(result: Model) -> list[Table]:
    """Return the tables of a model, with a group of rows for each component."""
    tables = []
    for title, measures in PARTS:
        headings = [column.heading for column in columns_of(result, measures)]
        if not headings:
            continue
        groups = []
        for component, rows in groupby(rows_of(result), key=lambda row: row[0]):
            lines = [["", layer, *(number(row[h]) for h in headings)] for _, layer, row in rows]
            lines[0][0] = component
            groups.append(lines)
        findings = bias_findings(result) if "cka" in measures else ()
        tables.append(Table(title, 2, ["component", "layer", *headings], groups, findings))
    if result.importance is not None:
        tables.append(importance_table(result, result.importance))
    return tables


class _Bias(NamedTuple):
    """CKA of a module, with and without bias."""

    module: str
    biased: float
    unbiased: float
    positions: int


def bias_findings(result: Model) -> tuple[str, ...]:
    """Return a warning if CKA exceeds its unbiased estimate by more than ``BIASED``, or nothing.

    The warning names the module with the largest difference, and the number of positions that would
    suffice for all modules. If another module is the most similar by unbiased CKA, the warning
    names this module too.
    """
    modules: list[_Bias] = []
    needed = 0
    for component, entry in result.components.items():
        for number, layer in entry.layers.items():
            cka = layer.get("cka")
            if cka is None or cka.mean is None or cka.unbiased_mean is None or cka.mean >= 1:
                continue
            modules.append(
                _Bias(f"{component}, layer {number}", cka.mean, cka.unbiased_mean, entry.positions)
            )
            if cka.mean - cka.unbiased_mean > BIASED:
                own = positions_needed(cka.mean, cka.unbiased_mean, entry.positions)
                needed = max(needed, own)
    if not needed:
        return ()
    worst = max(modules, key=lambda one: one.biased - one.unbiased)
    digit = 10 ** max(len(str(needed)) - 2, 0)
    warning = (
        f"CKA is biased upwards: {worst.biased:.3f}, but {worst.unbiased:.3f} without bias "
        f"({worst.module}, {worst.positions:,} positions). Trust CKA unb., or measure about "
        f"{-(-needed // digit) * digit:,} positions."
    )
    biased = max(modules, key=lambda one: one.biased).module
    unbiased = max(modules, key=lambda one: one.unbiased).module
    if biased != unbiased:
        warning += f" Without bias, heads are most similar in {unbiased}, not in {biased}."
    return (warning,)


def importance_table(result: Model, importance: Importance) -> Table:
    """Return the table of the most and least important heads.

    They are ordered by the rise of the loss or, if it was not measured, by the gradient.
    """
    heads = heads_of(result)
    by_rise = "importance" in heads[0]
    strengths = (head.get("importance", head.get("importance_gradient")) for head in heads)
    known = [(x, head) for x, head in zip(strengths, heads, strict=True) if x is not None]
    ranked = [head for _, head in sorted(known, key=lambda pair: pair[0], reverse=True)]
    parts = [ranked[:SHOWN], ranked[-SHOWN:]] if len(ranked) > 2 * SHOWN else [ranked]
    which = f"{SHOWN} strongest and {SHOWN} weakest" if len(parts) > 1 else "strongest first"
    headings = ["component", "layer", "head", *(["rise", "95 %", "p"] if by_rise else [])]
    headings += ["|gradient|"] if "importance_gradient" in heads[0] else []
    return Table(
        f"Importance of heads, {which} (loss {importance.loss:.3f} bits per {importance.unit})", 3,
        headings,
        [[_importance_cells(head) for head in part] for part in parts],
        tuple(_importance_findings(heads, importance)),
    )  # fmt: skip


def _importance_cells(head: HeadRow) -> list[str]:
    cells = [head["component"], head["layer"], str(head["head"])]
    if "importance" in head:
        low, high = head.get("low"), head.get("high")
        between = "-" if low is None else f"[{low:+.4f}, {high:+.4f}]"
        cells += [f"{head['importance']:+.4f}", between, p_value(head.get("p_holm")) or "-"]
    slope = head.get("importance_gradient")
    return cells if slope is None else [*cells, f"{slope:.4f}"]


def _importance_findings(heads: list[HeadRow], importance: Importance) -> list[str]:
    sentences = []
    if "importance" in heads[0]:
        tested = [h for h in heads if (p := h.get("p_holm")) is not None and p < SIGNIFICANT]
        needed = sum((h.get("importance") or 0) > 0 for h in tested)
        harmful = len(tested) - needed
        sentences.append(
            "Removing one head at a time raises the loss significantly for "
            f"{needed} of {len(heads)} heads"
            + (f", and lowers it for {harmful}." if harmful else ".")
        )
    if importance.spearman is not None:
        sentences.append(
            "Rank correlation (Spearman) of the rise and the gradient over the heads: "
            f"{importance.spearman:.2f}."
        )
    return sentences


def against_table(results: list[Model], other: str) -> Table:
    """Return the table of ``--against``: similarity of models to the model named ``other``."""
    lines = [
        [result.name, component, *(number(getattr(similarity, key)) for key in AGAINST.values())]
        for result in results
        for component, similarity in (result.against or {}).items()
    ]
    title = f"Similarity of last layers to those of {other} (Yun et al. 2021, Table 2)"
    return Table(title, 2, ["model", "component", *AGAINST], [lines])


def number(value: float | None) -> str:
    """Return a value as text with three decimals, or a dash for None."""
    return "-" if value is None else f"{value:.3f}"


def legend(results: list[Model]) -> list[str]:
    """Return the legend: a line for each kind of column and row."""
    first = results[0]
    lines = [f"{c.heading}: {c.meaning}" for c in columns_of(first) if c.meaning]
    if lines:
        lines.append('Row "all, last": mean over the last measured layer of each component; row '
                     f'"all, mean": mean over {OVER["mean"]}')  # fmt: skip
    if first.importance:
        unit = first.importance.unit
        words = {
            "replaced": REPLACED[first.importance.of], "unit": unit, "summed": SUMMED[unit],
        }  # fmt: skip
        measured = [m for m in IMPORTANCE_MEANINGS if m in first.summary]
        lines += [IMPORTANCE_MEANINGS[m].format(**words) for m in measured]
    return [*lines, *([AGAINST_MEANING] if first.against else [])]
