"""Our numbers beside the papers', cell by cell."""

from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.files import write_json
from diverse_mha.common.tables import Layout, write_texts
from diverse_mha.training.reproduce.experiments import Row, Table
from diverse_mha.training.reproduce.fill import Number
from diverse_mha.training.reproduce.measures import MEASURES

Filled = Sequence[tuple[Row, list[Number | None]]]

SMOKE = (
    "Smoke scale: tiny models after a few updates on a made-up corpus. Our numbers show that the "
    "row runs to its end, and mean nothing else."
)
SMALL = (
    "Small scale: a small model on a small corpus (Multi30k, Penn Treebank or logic), far from "
    "the paper's; compare our rows with each other, not with the paper's."
)
SPEED = (
    "Speed: updates a second of each training by itself; for ratios in one interleaved run see "
    "scripts/benchmark.sh. The paper's were taken on its GPUs."
)
SHARED = (
    "* While other programs ran: the training had less than 90 % of a core, and its speed says "
    "little."
)
LEFT_OUT = "Speed leaves out seeds that had less than 90 % of a core, as other programs ran."


def lay_out(
    table: Table,
    filled: Filled,
    scale: str,
    signatures: Sequence[str] = (),
    *,
    bf16: bool | None = None,
    updates: int | None = None,
) -> Layout:
    """Put paper's and our numbers side by side.

    A column that the paper has no number for is ours alone. Speeds are followed by their ratio
    to the baseline row, in the paper and here; BLEU is the tokenised one, as the papers report.
    Several seeds give mean and standard deviation.

    Args:
        table: The table.
        filled: Its rows with their numbers.
        scale: The scale of our numbers.
        signatures: Of the BLEU scores, for the notes.
        bf16: Whether the runs were trained in bfloat16; None for what their recipe says.
        updates: After how many updates each was stopped, in a trial.
    """
    baseline = next((numbers for row, numbers in filled if row.name == table.baseline), None)
    headings, lines = [""], [[row.label] for row, _ in filled]
    everyone = [number for _, row_numbers in filled for number in row_numbers]
    # Where a table has none of the paper's numbers, all are ours.
    ours = ", ours" if any(n and n.paper is not None for n in everyone) else ""
    for place, column in enumerate(table.columns):
        numbers = [row_numbers[place] for _, row_numbers in filled]
        base = baseline[place] if baseline is not None else None
        relative = base is not None and MEASURES[base.measure].relative
        published = any(number and number.paper is not None for number in numbers)
        headings += [f"{column}, paper"] * published + [f"{column}{ours}"]
        if relative:
            headings += [f"{column} / baseline, paper"] * published
            headings += [f"{column} / baseline{ours}"]
        for line, number in zip(lines, numbers, strict=True):
            line += [_paper(number)] * published + [_ours(number)]
            if relative:
                line += [_ratio(number and number.paper, base.paper)] * published
                doubtful = base.doubtful or (number is not None and number.doubtful)
                line += [_ratio(number and number.mean, base.mean) + "*" * doubtful]
    return Layout(
        title=f"{table.paper}, {table.name}: {table.title}",
        headings=tuple(headings),
        lines=tuple(map(tuple, lines)),
        notes=(*_trial(updates), *_notes(table, filled, scale, signatures, bf16)),
    )


def write_all(layout: Layout, folder: Path, name: str, filled: Filled) -> list[Path]:
    """Write the table in every form, and the bare numbers as JSON; return the files."""
    files = write_texts(layout, folder, name)
    numbers = {
        row.name: [
            number
            and {"measure": number.measure, "paper": number.paper, "ours": number.ours}
            | ({"disturbed": number.disturbed} if number.disturbed else {})
            for number in row_numbers
        ]
        for row, row_numbers in filled
    }
    files.append(folder / f"{name}.json")
    write_json(files[-1], {"title": layout.title, "notes": layout.notes, "rows": numbers})
    return files


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
    return form(number.mean) + spread + ("*" if number.doubtful else "")


def _ratio(value: float | None, base: float | None) -> str:
    return f"{value / base:.2f}" if value and base else "-"


def _trial(updates: int | None) -> tuple[str, ...]:
    if updates is None:
        return ()
    return (f"A trial: every training was stopped after {updates:,} updates.",)


def _notes(
    table: Table, filled: Filled, scale: str, signatures: Sequence[str], bf16: bool | None
) -> tuple[str, ...]:
    numbers = [number for _, numbers in filled for number in numbers if number]
    measures = {number.measure for number in numbers}
    published = any(number.paper is not None for number in numbers)
    notes = [{"smoke": SMOKE, "small": SMALL * published}.get(scale, "")]
    seeds = sorted({number.count for number in numbers if number.count})
    if seeds and seeds[-1] > 1:
        said = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else seeds[0]
        notes.append(f"Ours: mean and standard deviation over {said} seeds.")
    if bf16 is not None:
        notes.append(f"Ours: trained in {'bfloat16' if bf16 else 'float32'}, decoded in float32.")
    if "speed" in measures:
        notes.append(SPEED)
    if any(number.doubtful for number in numbers):
        notes.append(SHARED)
    if any(number.disturbed and number.ours for number in numbers):
        notes.append(LEFT_OUT)
    notes += [note for name in sorted(measures) for note in MEASURES[name].notes]
    notes += table.notes
    if "bleu" in measures:
        notes += [f"BLEU: {signature}" for signature in signatures]
    return tuple(dict.fromkeys(note for note in notes if note))
