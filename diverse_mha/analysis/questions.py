"""Compares models: a table and a sentence for each question."""

import math
from statistics import mean, stdev
from typing import NamedTuple

from diverse_mha.analysis.collect import all_layers, last_layer
from diverse_mha.analysis.importance_tables import tables_of
from diverse_mha.analysis.tables import (
    SCORES,
    Table,
    compared,
    headings_of,
    number,
    parts_of,
    rows_of,
    summary_rows,
)
from diverse_mha.evaluation.comparison.inference import by_t


class Question(NamedTuple):
    """A question and its measures."""

    name: str  # for LaTeX
    title: str
    headings: tuple[str, ...]  # of the measures that answer it
    main: str  # measure of the sentence; if not measured, the first one that is
    higher: str  # what heads are when the value is higher
    lower: str


QUESTIONS = (
    Question("outputs", "Are heads' outputs similar?",
             ("SVCCA", "SVCCA top", "CKA", "CKA unb."), "CKA", "more similar",
             "less similar"),
    Question("places", "Do heads look at different places?", ("JSD", "JSD/row"), "JSD/row",
             "further apart", "closer together"),
    Question("sharpness", "How sharp is attention?", ("Entropy", "Max>0.95"), "Entropy",
             "less sharp", "sharper"),
    Question("scores", "Do heads disagree? exp(D) over all pairs of heads and over i≠j", SCORES,
             "Out.", "more in disagreement", "less in disagreement"),
)  # fmt: skip


def comparison_tables(results: list[dict]) -> list[Table]:
    """Tables of several models, one for each question that was measured.

    Two models stand in columns, with their difference; more stand in rows. The rows of a measure
    are what :func:`.tables.summary_rows` sums up, where all models have it.
    """
    rows = [summary_rows(result) for result in results]
    titles = {
        name: title for name, title in _modules(results).items() if all(name in r for r in rows)
    }
    headings = headings_of(results[0])
    names = [result["name"] for result in results]
    meanings = [line for part in parts_of(results[0]) for line in part.meanings]
    tables = []
    for question in QUESTIONS:
        places = [place for place, h in enumerate(headings) if h in question.headings]
        if not places:
            continue
        if len(results) == 2:
            columns = ["measure", "over", *names, "difference"]
            groups = [
                [
                    [
                        "" if line else headings[place],
                        title,
                        *_pair(*(r[name][place] for r in rows)),
                    ]
                    for line, (name, title) in enumerate(titles.items())
                ]
                for place in places
            ]
        else:
            columns = ["over", "model", *(headings[place] for place in places)]
            groups = [
                [
                    ["" if line else title, model, *(number(row[name][p]) for p in places)]
                    for line, (model, row) in enumerate(zip(names, rows, strict=True))
                ]
                for name, title in titles.items()
            ]
        own = [
            line
            for line in meanings
            if line.split(":")[0] in question.headings
            or (question.name == "scores" and line.startswith("Sub."))
        ]
        found = tuple(_findings(results, question))
        title = question.title + _not_the_same(results)
        if question.name == "outputs" and titles.get("cross") == "cross, last layer":
            title += " (cross, last layer: Yun et al. 2021, Tables 3 and 5)"
        tables.append(Table(f"compare-{question.name}", title, 2, columns, groups, own, found))
    return tables


def _pair(first: float | None, second: float | None) -> list[str]:
    if first is None or second is None:
        return [number(first), number(second), "-"]
    difference = f"{second - first:+.3f}"
    return [number(first), number(second), difference if float(difference) else "0.000"]


def _modules(results: list[dict]) -> dict[str, str]:
    """Return labels for ``summary_rows``."""
    last, every = last_layer(results), all_layers(results)
    return {"mean": every, "last": f"{last} layers", "cross": f"cross, {last} layer"}


def _not_the_same(results: list[dict]) -> str:
    same = all({*compared(result)} == {*compared(results[0])} for result in results)
    return "" if same else " (of components that are not the same in all models)"


def _findings(results: list[dict], question: Question) -> list[str]:
    """Say of every model but the first how it answers, by the mean over all modules.

    Models differ clearly if the interval of the mean difference over modules excludes 0: measures
    have scales of their own, so that no difference is small by itself. Nothing is said of models
    of other components; nor, by scores, of other numbers of heads: of unrelated heads exp(D) is
    the higher, the more heads there are.
    """
    first, sentences = results[0], []
    headings = headings_of(first)
    there = [h for h in question.headings if h in headings]
    main = question.main if question.main in there else there[0]
    for result in results[1:]:
        if {*compared(result)} != {*compared(first)} or (
            question.name == "scores" and _heads(result) != _heads(first)
        ):
            continue
        before, after = (
            summary_rows(one)["mean"][headings_of(one).index(main)] for one in (first, result)
        )
        if before is None or after is None:
            continue
        one, two, up = result["name"], first["name"], after > before
        between = _by_module(result, first, main)
        count = sum((x > 0) if up else (x < 0) for x in between)
        clear, interval = _spread(between)
        said = f"Heads of {one} and {two} do not differ clearly"
        if clear and f"{before:.3f}" != f"{after:.3f}":
            word = question.higher if up else question.lower
            said = f"Heads of {one} are {word} than those of {two}"
        sentences.append(
            f"{said}: {main} {after:.3f} against {before:.3f}, mean over {all_layers(results)}; "
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
    if not headings_of(results[0]):  # importance alone
        found = [(result["name"], tables_of(result)[-1].findings) for result in results]
        return " ".join(f"{name}: {findings[0]}" for name, findings in found if findings)
    if len(results) > 1:
        said = [table.findings for table in comparison_tables(results) if table.findings]
        return " ".join(said[0]) if said else "Nothing that was measured compares these models."
    (result,), there = results, headings_of(results[0])
    main = next(
        q.main if q.main in there else h for q in QUESTIONS for h in q.headings if h in there
    )
    values = sorted((value, *module) for module, value in _modules_of(result, main).items())
    if not values:
        return f"{main} compares pairs of heads, and {result['name']} has one head a module."
    low, high = (f"{x:.3f} ({part}, layer {layer})" for x, part, layer in (values[0], values[-1]))
    average = f"Heads of {result['name']}: {main} {mean(x for x, *_ in values):.3f}"
    return f"{average}, from {low} to {high}. Analyze a second checkpoint with it to compare."


def _heads(result: dict) -> dict[str, int]:
    return {name: component["heads"] for name, component in result["components"].items()}


def _by_module(result: dict, first: dict, heading: str) -> list[float]:
    """Return differences of a measure in the modules that both models have."""
    one, two = _modules_of(first, heading), _modules_of(result, heading)
    return [two[module] - one[module] for module in one if module in two]


def _modules_of(result: dict, heading: str) -> dict[tuple[str, str], float]:
    """Return a measure's values by component and layer."""
    place = headings_of(result).index(heading)
    return {
        (component, layer): row[place]
        for component, layer, row in rows_of(result)
        if component != "all" and layer != "mean" and row[place] is not None
    }
