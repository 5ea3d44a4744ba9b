"""Prints the study's tables from the runs that are packed in results/."""

import argparse
import csv
import io
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import ROOT, write_files
from diverse_mha.common.tables import markdown_table
from experiments import packed
from experiments.packed import Kept
from experiments.study_tables import BY_SENTENCES, TABLES, Row, Rows, compared

RESULTS, SUMMARY = ROOT / "results", ROOT / "docs" / "results.md"
DETAILS = RESULTS / "details.md"
ARCHIVE, RUNS, CURVES = (RESULTS / name for name in ("runs.tar.xz", "runs.csv", "curves.csv"))
REFERENCE = Path("multi30k/raw/test.en")  # below the folder of prepared corpora


def main(words: Sequence[str] | None = None) -> int:
    """Carry out the command; its exit code is 1 if something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.show", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("table", nargs="?", choices=TABLES, metavar="TABLE", help=", ".join(TABLES))
    todo = parser.add_mutually_exclusive_group()
    todo.add_argument("--check", action="store_true", help="compare pages and CSVs with the runs")
    text = "draw learning curves and quality against diversity, as in docs/figures"
    todo.add_argument("--draw", type=Path, metavar="FOLDER", help=text)
    todo.add_argument("--pack", type=Path, metavar="FOLDER", help="write results/ from these runs")
    todo.add_argument("--unpack", type=Path, metavar="FOLDER", help="unpack the runs into FOLDER")
    text = "prepared corpora (data); with Multi30k in it BLEU is tested and chrF computed"
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="FOLDER", help=text)
    args = parser.parse_args(words)
    for option in ("pack", "unpack", "draw"):
        if vars(args)[option] and args.table:
            parser.error(f"{args.table} has no effect with --{option}; leave it out")
    if args.unpack:
        return unpack_new(args.unpack)
    reference = args.data / REFERENCE
    if args.table in (None, *BY_SENTENCES) and not reference.is_file():
        cure = "prepare Multi30k, or give --data"
        print(f"{reference}: not there, so BLEU is not tested; {cure}", file=sys.stderr)
    if args.pack:
        return write(args.pack, reference)
    with tempfile.TemporaryDirectory() as folder:
        packed.unpack(ARCHIVE, Path(folder))
        if args.draw:
            return draw_pictures(Path(folder), args.draw, reference)
        return show(Path(folder), args.table, args.check, reference)


def unpack_new(folder: Path) -> int:
    """Unpack the runs that are not in a folder; those that are stay as they are."""
    with tempfile.TemporaryDirectory() as place:
        packed.unpack(ARCHIVE, Path(place))
        runs = [run.relative_to(place) for run in Path(place).glob("small/runs/*")]
        others = [run.relative_to(place) for run in Path(place).glob("other-tests/*")]
        new = [run for run in runs + others if not (folder / run).exists()]
        for run in new:
            shutil.copytree(Path(place) / run, folder / run)
    left = len(runs) - sum(run in runs for run in new)
    print(f"{len(runs)} runs: {folder}" + (f"; {left} were there and are left" if left else ""))
    return 0


def write(folder: Path, reference: Path) -> int:
    """Write archive and CSVs from a folder of runs."""
    runs = packed.read_runs(folder)
    if not runs:
        raise UserError(f"--pack {folder}: has no run of the study in small/runs; name another")
    write_files({ARCHIVE: packed.pack(runs)})
    with tempfile.TemporaryDirectory() as place:
        packed.unpack(ARCHIVE, Path(place))  # which has rounded some figures
        files = csvs(packed.read_runs(Path(place)), reference)
        write_files({path: text.encode() for path, text in files})
    print(f"{len(runs)} runs: {ARCHIVE}, {RUNS}, {CURVES}")
    return 0


def draw_pictures(folder: Path, to: Path, reference: Path) -> int:
    """Draw the rows that were trained to the end."""
    logging.disable(logging.WARNING)  # fairseq opens all loggers, and matplotlib says much
    from experiments.draw import draw

    if not reference.is_file():
        raise UserError(f"{reference}: not there, so BLEU is not tested; give --data")
    rows = by_label(packed.read_runs(folder), "to-the-end")
    print(*draw(rows, compared(rows, reference), to))
    return 0


def by_label(runs: Sequence[Kept], table: str) -> Rows:
    """Return the runs of a table by label."""
    rows: Rows = {}
    for kept in filter(TABLES[table][1], runs):
        rows.setdefault(kept.row.label, []).append(kept)
    return rows


def csvs(runs: Sequence[Kept], reference: Path) -> Iterator[tuple[Path, str]]:
    """Make the CSV files."""
    before = RUNS.read_text(encoding="utf-8") if RUNS.is_file() else ""
    yield RUNS, packed.runs_csv(runs, reference, before)
    yield CURVES, packed.curves_csv(runs)


def show(folder: Path, name: str | None, check: bool, reference: Path) -> int:
    """Print one table or all, or what differs from them."""
    runs, wrong = packed.read_runs(folder), []
    for table in [name] if name else TABLES:
        page = SUMMARY if table in ("summary", "tuned") else DETAILS
        text = page.read_text(encoding="utf-8")
        columns, lines = made(runs, table, text, reference)
        if check:
            wrong += [f"{page}: {table}: {said}" for said in differences(table, text, lines)]
        else:
            cells = ([label, *(cell or "" for cell in row)] for label, row in lines.items())
            print(f"**{table}**\n\n{markdown_table(columns, cells)}")
    if check and not name:
        for path, text in csvs(runs, reference):
            wrong += other_lines(path, text)
    for line in wrong:
        print(line.replace(f"{ROOT}/", ""))
    if check and not wrong:
        print(f"{len(runs)} runs: pages and CSVs agree")
    return 1 if wrong else 0


def made(
    runs: Sequence[Kept], table: str, page: str, reference: Path
) -> tuple[list[str], dict[str, Row]]:
    """Make a table: its columns as on the page, and its cells by label."""
    head, _, make = TABLES[table]
    columns, said = read_table(page, head)
    rows = by_label(runs, table)
    return columns, make(rows, reference, said) if rows else {}


def read_table(text: str, head: str) -> tuple[list[str], dict[str, list[str]]]:
    """Find the first table of a page that begins so: its columns, and its cells by label."""
    lines = text[text.index(f"\n{head}") + 1 :].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return cells[0], {label: row for label, *row in cells[2:]}


def differences(table: str, page: str, lines: Mapping[str, Row]) -> Iterator[str]:
    """Name the cells of a page that are not as they were made."""
    columns, said = read_table(page, TABLES[table][0])
    if lines.keys() != said.keys():
        rows = ", ".join(sorted(lines.keys() ^ said.keys()))
        yield f"rows on the page alone or of the runs alone: {rows}"
    for label, cells in said.items():
        for column, ours, cell in zip(columns[1:], lines.get(label, ()), cells, strict=False):
            if ours is not None and not agree(table, column, ours, cell):
                yield f"{label}: {column}: {cell!r}, the runs say {ours!r}"


def agree(table: str, column: str, ours: str, said: str) -> bool:
    """Compare two cells; differences of scores that the page has rounded may end otherwise."""
    if ours == said or table != "ten-epochs" or not column.startswith("difference"):
        return ours == said
    (one, *rest), (other, *others) = ours.split(" "), said.split(" ")
    unit = 10 ** -len(one.partition(".")[2])
    return rest == others and bool(other) and abs(float(one) - float(other)) < 1.5 * unit


def other_lines(path: Path, text: str) -> Iterator[str]:
    """Name the cells of a CSV that are not as they were made."""
    (head, *ours), (there, *said) = (
        list(csv.reader(io.StringIO(one))) for one in (text, path.read_text(encoding="utf-8"))
    )
    if head != there or len(ours) != len(said):
        yield f"{path}: has not the columns and rows of the runs; make it again with --pack"
        return
    for number, (row, other) in enumerate(zip(ours, said, strict=True), start=2):
        for column, mine, cell in zip(head, row, other, strict=True):
            if mine != cell:
                yield f"{path}:{number}: {column}: {cell!r}, the runs say {mine!r}"


if __name__ == "__main__":
    run_cli(main)
