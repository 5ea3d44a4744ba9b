"""What an analysis found: tables that compare models, a sentence for each, and the headline."""

import math
from statistics import mean, stdev
from typing import NamedTuple

from diverse_mha.analysis.tables import (
    OVER,
    Table,
    columns_of,
    compared,
    importance_table,
    layers_of,
    number,
    summary_rows,
)
from diverse_mha.evaluation.comparison.statistics import by_t


class Question(NamedTuple):
    """A question and its measures."""

    title: str
    measures: tuple[str, ...]  # that answer it
    main: str  # heading of the sentence; if not measured, the first one that is
    higher: str  # what heads are when the value is higher
    lower: str


QUESTIONS = (
    Question("Are heads' outputs similar?", ("svcca", "cka"), "CKA",
             "more similar", "less similar"),
    Question("Do heads look at different places?", ("jsd",), "JSD/row",
             "further apart", "closer together"),
    Question("How sharp is attention?", ("entropy",), "Entropy", "less sharp", "sharper"),
    Question("Do heads disagree? exp(D) over all pairs of heads and over i≠j", ("disagreement",),
             "Out.", "more in disagreement", "less in disagreement"),
)  # fmt: skip


def comparison_tables(results: list[dict]) -> list[Table]:
    """Return tables of several models, one for each question that was measured.

    A group of rows for each of ``OVER`` that all models have; two models have their difference.
    """
    summaries, tables = [summary_rows(result) for result in results], []
    for question in QUESTIONS:
        headings = [column.heading for column in columns_of(results[0], question.measures)]
        if not headings:
            continue
        groups = []
        for key, title in OVER.items():
            if all(key in summary for summary in summaries):
                rows = [[summary[key][heading] for heading in headings] for summary in summaries]
                lines = [
                    ["", result["name"], *map(number, row)]
                    for result, row in zip(results, rows, strict=True)
                ]
                lines += [["", "difference", *map(_change, *rows)]] if len(rows) == 2 else []
                lines[0][0] = title
                groups.append(lines)
        columns, found = ["over", "model", *headings], tuple(_findings(results, question))
        tables.append(Table(question.title, 2, columns, groups, found))
    return tables


def _change(first: float | None, second: float | None) -> str:
    return "-" if first is None or second is None else f"{second - first:+.3f}"


def _main(result: dict, question: Question) -> str | None:
    """Return the heading that answers a question best of those that were measured."""
    there = [column.heading for column in columns_of(result, question.measures)]
    return question.main if question.main in there else next(iter(there), None)


def _findings(results: list[dict], question: Question) -> list[str]:
    """Say of every model but the first how it answers, by the mean over all modules.

    Models differ clearly if the interval of the mean difference over modules excludes 0: measures
    have scales of their own, so that no difference is small by itself. Nothing is said of models
    of other components; nor, by scores, of other numbers of heads: of unrelated heads exp(D) is
    the higher, the more heads there are.
    """
    first, sentences = results[0], []
    main = _main(first, question)
    for result in results[1:]:
        if {*compared(result)} != {*compared(first)} or (
            question.measures == ("disagreement",) and _heads(result) != _heads(first)
        ):
            continue
        before, after = (summary_rows(one)["mean"][main] for one in (first, result))
        if before is None or after is None:
            continue
        one, two, up = result["name"], first["name"], after > before
        old, new = _modules_of(first, main), _modules_of(result, main)
        between = [new[module] - old[module] for module in old if module in new]
        count = sum((x > 0) if up else (x < 0) for x in between)
        clear, interval = _spread(between)
        said = f"Heads of {one} and {two} do not differ clearly"
        if clear and f"{before:.3f}" != f"{after:.3f}":
            word = question.higher if up else question.lower
            said = f"Heads of {one} are {word} than those of {two}"
        sentences.append(
            f"{said}: {main} {after:.3f} against {before:.3f}, mean over {OVER['mean']}; "
            f"{'higher' if up else 'lower'} in {count} of {len(between)} modules{interval}."
        )
    return sentences


def _spread(between: list[float]) -> tuple[bool, str]:
    """Whether differences of modules are clear of 0, and the interval of their mean in words."""
    if len(between) < 2:
        return False, ""
    degrees = len(between) - 1
    found = by_t(mean(between), stdev(between) / math.sqrt(len(between)), degrees, over_seeds=False)
    if found.interval is None:  # all are the same
        return True, ""
    low, high = found.interval
    return low > 0 or high < 0, f" (difference {low:+.3f} to {high:+.3f}, 95 % over modules)"


def headline(results: list[dict]) -> str:
    """Return a sentence on what an analysis found."""
    if not columns_of(results[0]):  # importance alone
        found = [(result["name"], importance_table(result).findings) for result in results]
        return " ".join(f"{name}: {findings[0]}" for name, findings in found if findings)
    if len(results) > 1:
        said = [table.findings for table in comparison_tables(results) if table.findings]
        return " ".join(said[0]) if said else "Nothing that was measured compares these models."
    (result,) = results
    main = next(filter(None, (_main(result, question) for question in QUESTIONS)))
    values = sorted((value, *module) for module, value in _modules_of(result, main).items())
    if not values:
        return f"{main} compares pairs of heads, and {result['name']} has one head a module."
    low, high = (f"{x:.3f} ({part}, layer {layer})" for x, part, layer in (values[0], values[-1]))
    average = f"Heads of {result['name']}: {main} {mean(x for x, *_ in values):.3f}"
    return f"{average}, from {low} to {high}. Analyze a second checkpoint with it to compare."


def _heads(result: dict) -> dict[str, int]:
    return {name: component["heads"] for name, component in result["components"].items()}


def _modules_of(result: dict, heading: str) -> dict[tuple[str, str], float]:
    """Return a measure's values by component and layer."""
    return {
        (component, layer): row[heading]
        for component in result["components"]
        for layer, row in layers_of(result, component).items()
        if row[heading] is not None
    }
