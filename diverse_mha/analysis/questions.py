"""Models beside each other: a table for each question, and what it shows in a sentence."""

from collections.abc import Callable
from typing import NamedTuple

from diverse_mha.analysis.collect import all_layers, last_layer
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

NOTABLE = 0.01  # smaller differences are called none


class Question(NamedTuple):
    """What a table answers."""

    name: str  # for LaTeX
    title: str
    headings: tuple[str, ...]  # of the measures that answer it
    main: str  # the measure that its sentence is of; the first that was measured if this was not
    higher: str  # what to say of the heads of a model whose value is higher than another's
    lower: str


QUESTIONS = (
    Question("outputs", "Are heads' outputs alike?",
             ("SVCCA", "SVCCA top", "CKA", "CKA unb."), "CKA", "more alike",
             "less alike"),
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
    """What to call the rows of ``summary_rows``."""
    last, every = last_layer(results), all_layers(results)
    return {"mean": every, "last": f"{last} layers", "cross": f"cross, {last} layer"}


def _not_the_same(results: list[dict]) -> str:
    same = all({*compared(result)} == {*compared(results[0])} for result in results)
    return "" if same else " (of components that are not the same in all models)"


def _findings(results: list[dict], question: Question) -> list[str]:
    """Say of every model but the first how it answers, by the mean over all modules.

    Nothing is said of models of other components; nor, by scores, of other numbers of heads: of
    unrelated heads exp(D) is the higher, the more heads there are.
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
        values = f"{after:.3f} against {before:.3f} by {main}, mean over {all_layers(results)}"
        one, two = result["name"], first["name"]
        if abs(after - before) < NOTABLE:
            sentences.append(f"Heads of {one} and {two} hardly differ in this: {values}.")
            continue
        word = question.higher if after > before else question.lower
        sign: Callable[[float], bool] = (lambda x: x > 0) if after > before else (lambda x: x < 0)
        apart = _by_module(result, first, main)
        way = "higher" if after > before else "lower"
        sentences.append(
            f"Heads of {one} are {word} than those of {two}: {values}; {way} in "
            f"{sum(map(sign, apart))} of {len(apart)} modules."
        )
    return sentences


def _heads(result: dict) -> dict[str, int]:
    return {name: component["heads"] for name, component in result["components"].items()}


def _by_module(result: dict, first: dict, heading: str) -> list[float]:
    """Differences of a measure, by component and layer that both models have."""
    values = [
        {
            (component, layer): row[headings_of(one).index(heading)]
            for component, layer, row in rows_of(one)
            if component != "all" and layer != "mean"
        }
        for one in (first, result)
    ]
    shared = [key for key in values[0] if None not in (values[0][key], values[1].get(key))]
    return [values[1][key] - values[0][key] for key in shared]
