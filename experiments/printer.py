"""Lays out our numbers beside the papers', cell by cell."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from diverse_mha.common.files import write_json
from diverse_mha.common.tables import Layout, write_texts
from experiments.measures import MEASURES
from experiments.numbers import Choices, Filled, Number
from experiments.papers import Table

SMOKE = (
    "Smoke scale: tiny models after a few updates on a generated corpus. Our numbers show that the "
    "row runs to its end, and mean nothing else."
)
SMALL = (
    "Small scale: Multi30k, Tatoeba, Penn Treebank or logic, and settings of our own; compare our "
    "rows with each other, not with the paper's."
)
SPEED = (
    "Speed: updates per second of each training. Other programs on the machine affect it; for "
    "reliable ratios see scripts/benchmark.sh. The paper's speeds were measured on its GPUs."
)
MARKS = (
    "*, **: sacreBLEU differs from the baseline above, p < 0.05 or p < 0.01 over sentences and "
    "seeds, with Holm's correction for the number of rows of the column that are compared with "
    "this baseline. †: with one seed, p is over sentences alone; another seed may differ by more."
)
#: Key of a BLEU signature in a test's result -> kind of that score.
SIGNATURES = {
    "tokenised_signature": "tokenised",
    "compound_split_signature": "compound-split",
    "sacrebleu_signature": "sacreBLEU",
}


def caveats(choices: Choices) -> list[str]:
    """Return notes on how our runs differ from the recipe's intended use."""
    notes = []
    if choices.updates is not None:
        notes.append(f"Trial run: every training was stopped after {choices.updates:,} updates.")
    if choices.scale == "smoke":
        notes.append(SMOKE)
    if choices.bf16 is not None:
        precision = "bfloat16" if choices.bf16 else "float32"
        notes.append(f"Ours: trained in {precision}, decoded in float32.")
    return notes


def lay_out(
    table: Table, filled: Filled, choices: Choices, results: Collection[Mapping] = ()
) -> Layout:
    """Put the paper's and our numbers side by side.

    A column without numbers of the paper shows only ours. ``results`` are the results of the runs,
    which have BLEU's signatures.
    """
    headings, lines = [""], [[row.label] for row, _ in filled]
    everyone = [number for _, row_numbers in filled for number in row_numbers]
    # If a table has none of the paper's numbers, "ours" is not needed in the headings.
    ours = ", ours" if any(n and n.paper is not None for n in everyone) else ""
    for place, column in enumerate(table.columns):
        numbers = [row_numbers[place] for _, row_numbers in filled]
        published = any(number and number.paper is not None for number in numbers)
        headings += [f"{column}, paper"] * published + [f"{column}{ours}"]
        for line, number in zip(lines, numbers, strict=True):
            line += [_paper(number)] * published + [_ours(number)]
    return Layout(
        title=f"{table.paper}, {table.name}: {table.title}",
        headings=tuple(headings),
        lines=tuple(map(tuple, lines)),
        notes=tuple(dict.fromkeys(_notes(table, filled, choices, results))),
    )


def write_all(layout: Layout, folder: Path, name: str, content: dict) -> list[Path]:
    """Write a table in every format, and ``content`` as JSON; return the files."""
    files = [*write_texts(layout, folder, name), folder / f"{name}.json"]
    write_json(files[-1], content)
    return files


def to_json(layout: Layout, filled: Filled) -> dict:
    """Return the unformatted numbers of a table for a JSON file."""
    rows = {row.name: [n and asdict(n) for n in numbers] for row, numbers in filled}
    return {"title": layout.title, "notes": layout.notes, "rows": rows}


def _paper(number: Number | None) -> str:
    if number is None or number.paper is None:
        return ""
    return MEASURES[number.measure].form(number.paper)


def _ours(number: Number | None) -> str:
    if number is None:
        return ""
    if number.mean is None:
        return "-"
    form = MEASURES[number.measure].form
    # Parameters do not depend on the seed, and one seed has no spread.
    constant = number.spread is None or (number.measure == "parameters" and not number.spread)
    spread = "" if constant else f" ± {form(number.spread)}"
    return form(number.mean) + spread + number.mark


def _notes(
    table: Table, filled: Filled, choices: Choices, results: Collection[Mapping]
) -> Iterator[str]:
    numbers = [number for _, numbers in filled for number in numbers if number]
    measures = {number.measure for number in numbers}
    yield from caveats(choices)
    if choices.scale == "small" and any(number.paper is not None for number in numbers):
        yield SMALL
    seeds = sorted({len(number.ours) for number in numbers if number.ours})
    if seeds and seeds[-1] > 1:
        count = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else seeds[0]
        yield f"Ours: mean and standard deviation over {count} seeds."
    if any(number.mark for number in numbers):
        yield MARKS
    if "speed" in measures:
        yield SPEED
    for name in sorted(measures):
        yield from MEASURES[name].notes
    yield from table.notes
    if "bleu" in measures:
        for test in (result["scores"].get("test", {}) for result in results):
            yield from (f"BLEU: {SIGNATURES[k]} {test[k]}" for k in SIGNATURES if k in test)
