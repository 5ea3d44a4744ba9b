"""Findings of an analysis: tables and sentences that compare models, and the headline."""

from statistics import mean
from typing import NamedTuple

from diverse_mha.analysis.results import Model
from diverse_mha.analysis.tables import (
    OVER,
    Table,
    bias_findings,
    columns_of,
    compared,
    importance_table,
    layers_of,
    number,
    summary_rows,
)


class Question(NamedTuple):
    """A question about heads, and the measures that answer it."""

    title: str
    measures: tuple[str, ...]
    main: str  # column that the sentence quotes, if measured; else the first column
    higher: str  # description of heads with a higher value
    lower: str
    same: str


QUESTIONS = (
    Question("Are heads' outputs similar?", ("svcca", "cka"), "CKA",
             "more similar", "less similar", "similar"),
    Question("Do heads look at different places?", ("jsd",), "JSD/row",
             "further apart", "closer together", "far apart"),
    Question("How sharp is attention?", ("entropy",), "Entropy", "less sharp", "sharper", "sharp"),
    Question("Do heads disagree? exp(D) over all pairs of heads and over i≠j", ("disagreement",),
             "Out.", "more in disagreement", "less in disagreement", "much in disagreement"),
)  # fmt: skip


def comparison_tables(results: list[Model]) -> list[Table]:
    """Return tables that compare models, one for each measured question.

    A table has a group of rows for each kind of mean (``OVER``) that all models have and that is
    over other layers than the kinds before it. With two models, each group ends with a row for
    their difference.
    """
    summaries, tables = [summary_rows(result) for result in results], []
    over = _different_means(results)
    for question in QUESTIONS:
        headings = _headings(results[0], question)
        if not headings:
            continue
        groups = []
        for key in over:
            rows = [[summary[key][heading] for heading in headings] for summary in summaries]
            lines = [
                ["", result.name, *map(number, row)]
                for result, row in zip(results, rows, strict=True)
            ]
            lines += [["", "difference", *map(_change, *rows)]] if len(rows) == 2 else []
            lines[0][0] = OVER[key]
            groups.append(lines)
        findings = tuple(_findings(results, question, _main(question, headings)))
        tables.append(Table(question.title, 2, ["over", "model", *headings], groups, findings))
    return tables


def _different_means(results: list[Model]) -> list[str]:
    """Return the keys of ``OVER`` that all models have, without means over the same layers."""
    modules = [
        {part: [*result.components[part].layers] for part in compared(result)} for result in results
    ]
    keys = ["mean"]
    if any(len(layers) > 1 for model in modules for layers in model.values()):
        keys.append("last")
    if all("cross" in result.components for result in results) and any(
        [*model] != ["cross"] for model in modules
    ):
        keys.append("cross")
    return keys


def _change(first: float | None, second: float | None) -> str:
    return "-" if first is None or second is None else f"{second - first:+.3f}"


def _headings(result: Model, question: Question) -> list[str]:
    """Return the headings of a question's columns; none if no measure answers it."""
    return [column.heading for column in columns_of(result, question.measures)]


def _main(question: Question, headings: list[str]) -> str:
    """Return the heading of the column that a question's sentence quotes."""
    return question.main if question.main in headings else headings[0]


def _findings(results: list[Model], question: Question, main: str) -> list[str]:
    """Return, for each further model, a sentence that compares it with the first model.

    The sentence compares means over modules, in the column ``main``. Models with other components
    than the first model are skipped. For disagreement, models with another number of heads are
    skipped too, because exp(D) of unrelated heads grows with the number of heads.
    """
    first, sentences = results[0], []
    for result in results[1:]:
        if {*compared(result)} != {*compared(first)} or (
            question.measures == ("disagreement",) and _heads(result) != _heads(first)
        ):
            continue
        before, after = (summary_rows(model)["mean"][main] for model in (first, result))
        if before is None or after is None:
            continue
        verdict = f"Heads of {result.name} are as {question.same} as those of {first.name}"
        if f"{before:.3f}" != f"{after:.3f}":
            word = question.higher if after > before else question.lower
            verdict = f"Heads of {result.name} are {word} than those of {first.name}"
        reverse = _reversed(first, result) if main == "CKA" else ""
        sentences.append(
            f"{verdict}: {main} {after:.3f} against {before:.3f}, mean over {OVER['mean']}."
            f"{reverse} These are single models; other seeds may differ."
        )
    return sentences


def _reversed(first: Model, result: Model) -> str:
    """Return a sentence if CKA and its unbiased estimate rank two models differently."""
    rows = [summary_rows(model)["mean"] for model in (first, result)]
    biased, unbiased = (
        [round(value, 3) for row in rows if (value := row[heading]) is not None]
        for heading in ("CKA", "CKA unb.")
    )
    if len(biased) < 2 or len(unbiased) < 2:
        return ""
    if (biased[1] - biased[0]) * (unbiased[1] - unbiased[0]) >= 0:
        return ""
    before, after = unbiased
    return f" Without bias, the order is reversed: CKA unb. {after:.3f} against {before:.3f}."


def headline(results: list[Model]) -> str:
    """Return the main findings as text; empty if only gradients were measured."""
    if not columns_of(results[0]):  # only importance was measured
        by_model = [
            (result.name, importance_table(result, found).findings)
            for result in results
            if (found := result.importance) is not None
        ]
        return " ".join(f"{name}: {findings[0]}" for name, findings in by_model if findings)
    if len(results) > 1:
        findings_by_table = [
            table.findings for table in comparison_tables(results) if table.findings
        ]
        return (
            " ".join(findings_by_table[0])
            if findings_by_table
            else "None of the measures can compare these models."
        )
    (result,) = results
    answered = ((question, _headings(result, question)) for question in QUESTIONS)
    main = next(_main(question, headings) for question, headings in answered if headings)
    values = sorted((value, *module) for module, value in _modules_of(result, main).items())
    if not values:
        return f"{main} compares pairs of heads, but {result.name} has one head in each module."
    low, high = (f"{x:.3f} ({part}, layer {layer})" for x, part, layer in (values[0], values[-1]))
    average = f"Heads of {result.name}: {main} {mean(x for x, *_ in values):.3f}"
    finding = f"{average}, from {low} to {high}. To compare, analyze it with a second checkpoint."
    return " ".join([finding, *bias_findings(result)])


def _heads(result: Model) -> dict[str, tuple]:
    return {name: (entry.heads, entry.pruned) for name, entry in result.components.items()}


def _modules_of(result: Model, heading: str) -> dict[tuple[str, str], float]:
    """Return (component, layer) -> value in the column ``heading``."""
    return {
        (component, layer): value
        for component in result.components
        for layer, row in layers_of(result, component).items()
        if (value := row[heading]) is not None
    }
