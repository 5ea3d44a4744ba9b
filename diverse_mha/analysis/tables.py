"""The tables that ``diverse-mha analyze`` prints, and the rows behind them."""

import math

from diverse_mha.analysis.collect import COMPONENT_ORDER, mean

# Heading, measure, key within the layer's result, decimals, and its explanation.
COLUMNS = (
    ("SVCCA", "svcca", "mean", 3, "mean over pairs of heads, 0 to 1, higher = more alike"),
    ("CKA", "cka", "mean", 3, "linear kernel; mean over pairs, 0 to 1, higher = more alike"),
    ("CKA-RBF", "cka-rbf", "mean", 3, "the same with the RBF kernel, on a sample of positions"),
    ("JSD", "jsd", "mean", 3, "nats, summed over the queries of a sentence; higher = differ more"),
    ("JSD/row", "jsd", "per_row", 3, "nats, mean over the queries, 0 to 0.693"),
)
SCORES = (("Sub.", "subspace"), ("Pos.", "position"), ("Out.", "output"))
SOURCES = {
    "svcca": "Yun et al. 2021",
    "cka": "Yun et al. 2021",
    "cka-rbf": "Kornblith et al. 2019",
    "jsd": "Zheng et al. 2021",
}


def columns_of(result: dict) -> list[tuple]:
    """Columns that the result of a model has values for, without the disagreement scores."""
    measures = result["summary"]
    return [column for column in COLUMNS if column[1] in measures]


def rows_of(result: dict) -> list[tuple[str, str, list[float | None]]]:
    """Rows of a model: component, layer, values; the layers, and ``mean`` over them.

    The scores exp(D) of Li et al. 2018 come last; their mean is exp of the mean of D, as in
    their Table 4.
    """
    rows = []
    for component in (c for c in COMPONENT_ORDER if c in result["components"]):
        layers = result["components"][component]["layers"]
        scores = result.get("disagreement", {}).get(component)
        body = []
        for place, (number, layer) in enumerate(layers.items()):
            values = [
                (layer[measure] or {}).get(key) for _, measure, key, _, _ in columns_of(result)
            ]
            values += [scores[key]["layers"][place] for _, key in SCORES] if scores else []
            body.append((component, number, values))
        means = [mean(list(column)) for column in zip(*(row[2] for row in body), strict=True)]
        if scores:
            means[-len(SCORES) :] = [scores[key]["all"] for _, key in SCORES]
        rows += [*body, (component, "mean", means)]
    return rows


def summary_rows(result: dict) -> list[tuple[str, list[float | None]]]:
    """Rows over all components: ``last`` layer of each, and ``mean`` over all modules.

    Scores exp(D) are exp of the mean of D, here as there.
    """
    rows = []
    for label in ("last", "mean"):
        values = []
        for _, measure, key, _, _ in columns_of(result):
            suffix = "_per_row" if key == "per_row" else ""
            values.append(result["summary"][measure][label + suffix])
        for _, key in SCORES if "disagreement" in result else ():
            scores = [entry[key] for entry in result["disagreement"].values()]
            logs = [
                math.log(value)
                for entry in scores
                for value in (entry["layers"][-1:] if label == "last" else entry["layers"])
            ]
            values.append(math.exp(mean(logs)))
        rows.append((label, values))
    return rows


AGAINST_HEADINGS = ("SVCCA together", "SVCCA each head", "CKA together")


def against_rows(results: list[dict]) -> list[tuple[str, str, list[float | None]]]:
    """Rows of the comparison with another model: name, component, ``AGAINST_HEADINGS``."""
    return [
        (result["name"], component, [found["svcca"], found["svcca_each"], found["cka"]])
        for result in results
        for component, found in result.get("against", {}).items()
    ]


def headings_of(result: dict) -> list[str]:
    """Headings of the numbers of a model's rows."""
    headings = [column[0] for column in columns_of(result)]
    return headings + ([name for name, _ in SCORES] if "disagreement" in result else [])


def number(value: float | None) -> str:
    """A number of a table; a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def format_tables(results: list[dict], subset: str, against: str | None = None) -> str:
    """Lay out the results of models for a terminal: a table each, and one of all if several.

    Args:
        results: of ``diverse_mha.analysis.run.analyze``.
        subset: name of the split.
        against: name of the model that the others were compared with, if one was.
    """
    lines = []
    for result in results:
        lines += _model_table(result, subset) + [""]
    if len(results) > 1:
        lines += _comparison(results) + [""]
    if against is not None:
        lines += _against(results, against) + [""]
    return "\n".join(lines + legend(results[0]))


def _model_table(result: dict, subset: str) -> list[str]:
    shape = "; ".join(
        f"{component} {entry['heads']} heads, {entry['positions']:,} positions"
        for component, entry in result["components"].items()
    )
    lines = [f"{result['name']} ({result['architecture']}), {subset}: {shape}"]
    lines.append(f"{'component':<11}{'layer':<6}" + _cells(headings_of(result)))
    previous = None
    for component, layer, values in rows_of(result):
        shown = component if component != previous else ""
        lines.append(f"{shown:<11}{layer:<6}" + _cells(map(number, values)))
        previous = component
    for label, values in summary_rows(result):
        shown = "all" if label == "last" else ""
        lines.append(f"{shown:<11}{label:<6}" + _cells(map(number, values)))
    return lines


def _comparison(results: list[dict]) -> list[str]:
    width = max(len("model"), *(len(result["name"]) for result in results)) + 2
    lines = []
    for place, title in enumerate(
        ("last layer, mean over components", "mean over all layers and components")
    ):
        lines.append(f"{title}:")
        lines.append(f"{'model':<{width}}" + _cells(headings_of(results[0])))
        for result in results:
            values = summary_rows(result)[place][1]
            lines.append(f"{result['name']:<{width}}" + _cells(map(number, values)))
    return lines


def _against(results: list[dict], against: str) -> list[str]:
    width = max(len("model"), *(len(result["name"]) for result in results)) + 2
    lines = [f"last layers beside those of {against} (Yun et al. 2021, Table 2):"]
    headings = "".join(f"{heading:>17}" for heading in AGAINST_HEADINGS)
    lines.append(f"{'model':<{width}}{'component':<11}{headings}")
    for name, component, values in against_rows(results):
        cells = "".join(f"{number(value):>17}" for value in values)
        lines.append(f"{name:<{width}}{component:<11}{cells}")
    return lines


def legend(result: dict) -> list[str]:
    """Lines that say what the columns of a model's table mean."""
    lines = [f"{n}: {text} ({SOURCES[m]})" for n, m, _, _, text in columns_of(result)]
    if "disagreement" in result:
        lines.append("Sub., Pos., Out.: exp(D), 0 to 1, higher = differ more (Li et al. 2018)")
    lines.append("all, last: mean of the components' last layers; mean: of all layers")
    return lines


def _cells(values) -> str:
    return "".join(f"{value:>9}" for value in values)
