"""The tables of ``diverse-mha analyze``, wherever they are shown.

A result is always one of ``diverse_mha.analysis.run.analyze``.
"""

import math
from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from diverse_mha.analysis.collect import all_layers, last_layer, mean
from diverse_mha.analysis.names import file_name
from diverse_mha.measures.similarity import THRESHOLD


class Column(NamedTuple):
    """A number of the tables."""

    heading: str
    measure: str  # that it comes of, as ``--measures`` names them
    key: str  # of the layer's result
    meaning: str


COLUMNS = (
    Column(
        "SVCCA", "svcca", "mean",
        "mean of the canonical correlations between the directions that cover {share} of the "
        "variance of two heads; mean over pairs, 0 to 1, higher = more similar (Yun et al. 2021)",
    ),
    Column(
        "SVCCA top", "svcca", "top_mean",
        "of the same correlations only the leading ones that cover 98 % of their sum, as the code "
        "of Raghu et al. 2017 does; the other reading of Yun et al. 2021, section 3.2",
    ),
    Column(
        "CKA", "cka", "mean",
        "linear kernel; mean over pairs, 0 to 1, higher = more similar (Yun et al. 2021)",
    ),
    Column(
        "CKA unb.", "cka", "unbiased_mean",
        "the same by unbiased estimates (Song et al. 2012), about 0 for independent heads",
    ),
    Column(
        "JSD", "jsd", "mean",
        "nats, summed over the queries of a sentence; higher = differ more (Zheng et al. 2021)",
    ),
    Column("JSD/row", "jsd", "per_row", "nats, mean over the queries, 0 to 0.693"),
    Column(
        "Entropy", "entropy", "mean",
        "of a query's attention weights, nats; mean over queries and heads; lower = sharper",
    ),
    Column(
        "Max>0.95", "entropy", "share_above_0.95",
        "share of the queries whose largest weight is above 0.95; mean over heads",
    ),
)  # fmt: skip
SHARPNESS = "sharpness"
# Tables by head: name, key of a layer's entropy, title.
BY_HEAD = (
    ("entropy", "heads", "Entropy of attention by head, nats"),
    ("peaks", "heads_share_above_0.95", "Share of queries whose largest weight is above 0.95"),
)
HEADS = 8  # in a row
# Of the disagreement scores over all pairs of heads: heading, and name of the score.
ALL_PAIRS = {"Sub.": "subspace", "Pos.": "position", "Out.": "output"}
SCORES = (*ALL_PAIRS, *(f"{heading} i≠j" for heading in ALL_PAIRS))  # headings
SCORE_MEANINGS = [
    "Sub., Pos., Out.: exp(D) of values, attention and outputs over all pairs of heads, i = j "
    "included, 0 to 1, higher = differ more (Li et al. 2018)",
    "Sub., Pos., Out. i≠j: the same without the pairs i = j; perpendicular heads give 1 in Sub. "
    "and Out. (most likely the 0.999 of Yun et al. 2021, section 6.2)",
]


class Part(NamedTuple):
    """Columns that make one table; a row of all would be too wide for a terminal or a page."""

    name: str
    title: str
    headings: list[str]
    place: slice  # of its columns among those of a row
    meanings: list[str]  # lines that say what they are


class Table(NamedTuple):
    """A table as it is shown: on a terminal, in the report and in LaTeX."""

    label: str  # for LaTeX
    title: str
    names: int  # columns at the left that hold words
    headings: list[str]
    groups: list[list[list[str]]]  # rows of cells; a blank stands for the word above it
    meanings: list[str]  # lines that say what its columns and rows are
    findings: tuple[str, ...] = ()  # sentences that say what it shows


# Of the comparison with another model: heading, and key of ``AgainstMeter.result``.
AGAINST = {
    "SVCCA together": "svcca",
    "SVCCA top": "svcca_top",
    "SVCCA each head": "svcca_each",
    "CKA together": "cka",
}
AGAINST_MEANING = (
    "Beside another model: SVCCA (mean of the canonical correlations) and CKA (linear kernel) of "
    "the outputs of both at the same positions, 0 to 1, higher = more similar; together: all heads "
    "side by side; each head: a head by itself beside all of the other model, mean over heads; "
    "SVCCA top: together, only the leading correlations that cover 98 % of their sum"
)


def columns_of(result: dict) -> list[Column]:
    """Columns that the result of a model has values for, without the disagreement scores."""
    return [column for column in COLUMNS if column.measure in result["summary"]]


def headings_of(result: dict) -> list[str]:
    """Headings of the numbers of a model's rows."""
    scores = SCORES if "disagreement" in result else ()
    return [*(column.heading for column in columns_of(result)), *scores]


def parts_of(result: dict) -> list[Part]:
    """Tables that a model's rows are cut into: similarities, sharpness, and scores."""
    columns, headings = columns_of(result), headings_of(result)
    layers = (layer for part in result["components"].values() for layer in part["layers"].values())
    thresholds = (layer["svcca"]["threshold"] for layer in layers if layer.get("svcca"))
    count, share = len(columns), f"{100 * next(thresholds, THRESHOLD):g} %"
    pairs = sum(column.measure != "entropy" for column in columns)
    meanings = [f"{c.heading}: {c.meaning.format(share=share)}" for c in columns]
    parts = [
        Part("similarity", "Similarity and divergence, means over pairs of heads", headings[:pairs],
             slice(0, pairs), meanings[:pairs]),
        Part(SHARPNESS, "Sharpness of attention", headings[pairs:count], slice(pairs, count),
             meanings[pairs:]),
        Part("scores", "Disagreement scores exp(D), over all pairs of heads and over i≠j",
             headings[count:], slice(count, None), SCORE_MEANINGS),
    ]  # fmt: skip
    return [part for part in parts if part.headings]


def rows_of(result: dict) -> list[tuple[str, str, list[float | None]]]:
    """Rows of a model: component, layer, values.

    Of every component the layers and ``mean``, which is over them; of ``all`` components
    ``last`` and ``mean``. The scores exp(D) of Li et al. 2018 come last; their mean is exp of
    the mean of D, as in their Table 4.
    """
    over_all = summary_rows(result).items()
    return [
        *_component_rows(result),
        *(("all", label, values) for label, values in over_all if label != "cross"),
    ]


def _component_rows(result: dict) -> list[tuple[str, str, list[float | None]]]:
    rows = []
    for component, entry in result["components"].items():
        body = []
        for place, (number, layer) in enumerate(entry["layers"].items()):
            values = [(layer[c.measure] or {}).get(c.key) for c in columns_of(result)]
            values += [scores["layers"][place] for scores in _scores(result, component)]
            body.append((component, number, values))
        means = [mean(list(column)) for column in zip(*(row[2] for row in body), strict=True)]
        if scores := _scores(result, component):
            means[-len(scores) :] = [score["all"] for score in scores]
        rows += [*body, (component, "mean", means)]
    return rows


def summary_rows(result: dict) -> dict[str, list[float | None]]:
    """Rows over components, by what they are of.

    ``cross``: the last chosen layer of the encoder-decoder attention, where there is one;
    ``last``: the mean of every component's last chosen layer; ``mean``: of all modules. Scores
    exp(D) are exp of the mean of D, here as there. A component with one head has no pairs, and
    is left out of every column if another has some.
    """
    components, plain = result["components"], len(columns_of(result))
    by_component = {
        component: [values for _, _, values in rows][:-1]  # the last is the component's mean
        for component, rows in groupby(_component_rows(result), key=lambda row: row[0])
    }
    rows = {"cross": by_component["cross"][-1]} if "cross" in components else {}
    for label, chosen in (("last", slice(-1, None)), ("mean", slice(None))):
        modules = [values for part in compared(result) for values in by_component[part][chosen]]
        columns = list(map(list, zip(*modules, strict=True)))
        rows[label] = [*map(mean, columns[:plain]), *map(_exp_of_mean, columns[plain:])]
    return rows


def compared(result: dict) -> list[str]:
    """Components that the means over components are over."""
    components = result["components"]
    return [part for part in components if components[part]["heads"] > 1] or [*components]


def _scores(result: dict, component: str) -> list[dict]:
    """Results of the component's scores in the order of ``SCORES``; none if not measured."""
    found = result.get("disagreement", {}).get(component)
    scores = [found[key] for key in ALL_PAIRS.values()] if found else []
    return [*scores, *(score["off_diagonal"] for score in scores)]


def _exp_of_mean(scores: list[float | None]) -> float | None:
    # A score of long sequences may be too small for a float: exp(-800) is 0.
    logs = [s if s is None else math.log(s) if s else -math.inf for s in scores]
    average = mean(logs)
    return None if average is None else math.exp(average)


def model_tables(result: dict, titles: Mapping[str, str] | None = None) -> list[Table]:
    """Tables of a model, a group of rows for every component; ``titles`` say what to call them."""
    tables = []
    for part in parts_of(result):
        if part.name == SHARPNESS:
            tables += _by_head(result, titles or {})
            continue
        groups = []
        for component, rows in groupby(rows_of(result), key=lambda row: row[0]):
            lines = [[layer, *map(number, values[part.place])] for _, layer, values in rows]
            title = (titles or {}).get(component, component)
            groups.append([["" if i else title, *line] for i, line in enumerate(lines)])
        label = f"layers-{part.name}-{file_name(result['name'])}"
        headings = ["component", "layer", *part.headings]
        meanings = [*part.meanings, _rows_over_all([result])]
        tables.append(Table(label, part.title, 2, headings, groups, meanings))
    return tables


def _by_head(result: dict, titles: Mapping[str, str]) -> list[Table]:
    """Tables of sharpness: a row a layer, a column a head; several where there are many heads."""
    components, tables = result["components"], []
    most = max(entry["heads"] for entry in components.values())
    meanings = ["columns: heads; mean: over all heads"]
    for name, key, title in BY_HEAD:
        for first in range(0, most, HEADS):
            numbers = range(first, min(first + HEADS, most))
            groups = []
            for component, entry in components.items():
                lines = []
                for layer, found in entry["layers"].items():
                    values = found["entropy"][key]
                    cells = [values[n] if n < len(values) else None for n in numbers]
                    lines.append(["", layer, *map(number, [mean(values), *cells])])
                lines[0][0] = titles.get(component, component)
                groups.append(lines)
            label = f"layers-{name}-{file_name(result['name'])}" + (
                f"-{first + 1}" if first else ""
            )
            headings = ["component", "layer", "mean", *(str(n + 1) for n in numbers)]
            tables.append(Table(label, title, 2, headings, groups, meanings))
    return tables


def against_table(
    results: list[dict], other: str, titles: Mapping[str, str] | None = None
) -> Table:
    """Lay out the comparison of models with another one of the name ``other``."""
    lines = [
        [
            result["name"],
            (titles or {}).get(component, component),
            *(number(found[key]) for key in AGAINST.values()),
        ]
        for result in results
        for component, found in result["against"].items()
    ]
    title = f"Similarity of last layers beside those of {other} (Yun et al. 2021, Table 2)"
    headings = ["model", "component", *AGAINST]
    return Table("against", title, 2, headings, [lines], [AGAINST_MEANING])


def number(value: float | None) -> str:
    """A number of a table; a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def legend(results: list[dict]) -> list[str]:
    """Lines that say what the columns and rows of the models' tables mean."""
    meanings = [meaning for part in parts_of(results[0]) for meaning in part.meanings]
    over_all = [_rows_over_all(results)] if meanings else []
    return [*meanings, *over_all, *_few_positions(results)]


def _few_positions(results: list[dict]) -> list[str]:
    """Say what CKA of unrelated heads would be where so few positions make it large."""
    found = {}
    for entry in (entry for result in results for entry in result["components"].values()):
        count, width = entry["positions"], entry.get("head_width", 0)
        measured = any("cka" in layer for layer in entry["layers"].values())
        if measured and width / (count + width) >= 0.1:
            found[count, width] = (
                f"note: of {count} positions CKA of unrelated heads of width {width} is about "
                f"{width / (count + width):.2f}; see CKA unb., or measure more data"
            )
    return list(found.values())


def _rows_over_all(results: list[dict]) -> str:
    last, every = last_layer(results), all_layers(results)
    return f"all, last: mean of the components' {last} layers; all, mean: of {every}"
