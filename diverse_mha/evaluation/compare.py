"""``diverse-mha compare``: tests the difference between systems, over seeds and sentences."""

import argparse
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import check_output_file, json_text, write_results
from diverse_mha.common.options import flag
from diverse_mha.common.tables import texts_of, to_text
from diverse_mha.evaluation.comparison.hypotheses import check_tokeniser, hypothesis_reader
from diverse_mha.evaluation.comparison.runs import Scored, read_run, read_scores
from diverse_mha.evaluation.comparison.systems import (
    RESAMPLES,
    SEED,
    System,
    check_search,
    compare_systems,
    lay_out,
    to_json,
)
from diverse_mha.evaluation.outputs import add_force, check_replaceable, json_with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha compare``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "A RUN is a folder with the result of an evaluation, or the result's JSON file. With "
        "--reference, a RUN is a file of translations by any toolkit. Give one RUN for each "
        "seed.\n\n"
        "examples:\n"
        "  diverse-mha compare --baseline runs/base-seed* --system runs/mine-seed*\n"
        "  diverse-mha compare --reference test.en --system base=a.1 a.2 --system mine=b.1\n"
        "  diverse-mha compare --scores base=a1.txt a2.txt --scores mine=b1.txt b2.txt"
    )
    what = parser.add_argument_group("what to compare")
    what.add_argument(
        "--baseline", nargs="+", metavar="[NAME=]RUN", help="runs of the method to compare with "
        "(default: the first --system)",
    )  # fmt: skip
    what.add_argument(
        "--system", nargs="+", action="append", metavar="[NAME=]RUN",
        help="runs of another method; may be given several times",
    )  # fmt: skip
    what.add_argument(
        "--scores", nargs="+", action="append", metavar="NAME=FILE",
        help="sentence scores of another program: one number in a line, one file for each seed; "
        "give --scores once for each system, the baseline first",
    )  # fmt: skip
    what.add_argument(
        "--despite-search", action="store_true",
        help="compare runs even if their beam sizes, length penalties or other search options "
        "differ, and print the differences",
    )  # fmt: skip
    plain = parser.add_argument_group("files of translations, one sentence a line")
    plain.add_argument(
        "--reference", type=Path, metavar="REF",
        help="the reference; each RUN is then a file of translations",
    )  # fmt: skip
    plain.add_argument(
        "--source", type=Path, metavar="SRC",
        help="the source text; a RUN with the same lines is refused",
    )  # fmt: skip
    plain.add_argument("--tokenize", metavar="NAME", help="sacreBLEU's tokeniser (default: 13a)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help="also write the results to FILE.json, and the table to FILE.md, FILE.csv and FILE.tex",
    )  # fmt: skip
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha compare``."""
    if args.output is not None:
        check_output_file("--output", args.output, ".json")
        tables = [args.output.with_suffix(ending) for ending in (".md", ".csv", ".tex")]
        for table in tables:
            check_output_file("--output", table)
        check_replaceable(
            "--output", args.output, is_own=json_with("title", "notes", "systems"), beside=tables,
            inputs=_inputs(args), force=args.force,
        )  # fmt: skip
    elif args.force:
        raise UserError("--force has no effect without --output; leave it out")
    for name in ("source", "tokenize"):
        if args.reference is None and getattr(args, name) is not None:
            raise UserError(f"--{name} {getattr(args, name)}: needs --reference; give both")
    groups = _groups(args)
    option, read = ("--system", _reader(args)) if args.scores is None else ("--scores", read_scores)
    named = [_parse_system(group) for group in groups]
    _check_present(args, chain.from_iterable(paths for _, paths in named))
    _check_names(option, [name for name, _ in named])
    systems = [System(name, tuple(map(read, paths))) for name, paths in named]
    notes = check_search(systems, allowed=args.despite_search)
    compared = compare_systems(systems)
    layout = lay_out(compared, f"Compared with {systems[0].name}", more=notes)
    text = to_text(layout)
    if args.output is not None:
        files = texts_of(layout, args.output.parent, args.output.stem)
        content = {"title": layout.title, "notes": layout.notes, "systems": to_json(compared)}
        content |= {"resamples": RESAMPLES, "seed": SEED}
        write_results(files | {args.output: json_text(content)})
        text += "\nwritten: " + ", ".join(map(str, [args.output, *files]))
    print(text)
    return 0


def _inputs(args: argparse.Namespace) -> Iterator[str | Path | None]:
    """Yield the paths of all input files. ``NAME=FILE`` gives two: the whole may be a path, too."""
    for argument in chain(args.baseline or [], *(args.system or []), *(args.scores or [])):
        yield from (argument, argument.partition("=")[2] or None)
    yield from (args.reference, args.source)


def _groups(args: argparse.Namespace) -> list[list[str]]:
    """Return the arguments that name the runs of each system, the baseline first."""
    if args.scores is None:
        groups = [*([args.baseline] if args.baseline else []), *(args.system or [])]
        if len(groups) < 2:
            missing = "--system" if args.baseline else "--baseline"
            raise UserError(f"{missing} is missing; name the runs of both sides")
        return groups
    for name in ("baseline", "system", "reference", "despite_search"):
        if getattr(args, name):
            raise UserError(f"{flag(name)}: does not go with --scores; leave it out")
    if len(args.scores) < 2:
        raise UserError("--scores is given once; give it for the baseline and for each system")
    return args.scores


def _reader(args: argparse.Namespace) -> Callable[[Path], Scored]:
    """Return the function that reads a run or a file of translations."""
    if args.reference is None:
        return read_run
    if args.despite_search:
        raise UserError("--despite-search: has no effect with --reference; leave it out")
    check_tokeniser(args.tokenize or "13a")
    return hypothesis_reader(args.reference, args.source, args.tokenize or "13a")


def _parse_system(arguments: Sequence[str]) -> tuple[str, list[Path]]:
    """Return a system's name and runs from arguments such as ``NAME=RUN RUN``.

    The default name is that of the first run's folder, or of its file if the file's name has a
    seed. The seed and what follows it are left out.
    """
    name, separator, first = arguments[0].partition("=")
    if not separator or os.path.exists(arguments[0]):
        name, first = "", arguments[0]
    path = Path(first)
    folder = path if path.is_dir() or "seed" in path.name else path.parent
    name = name or re.split(r"[._-]?seed", folder.name)[0] or str(path)
    return name, [path, *map(Path, arguments[1:])]


def _check_present(args: argparse.Namespace, paths: Iterable[Path]) -> None:
    """Raise an error for a missing run or file."""
    for path in paths:
        if path.exists():
            continue
        if args.scores is not None or args.reference is not None:
            option = "--system" if args.scores is None else "--scores"
            raise UserError(f"{option} {path}: no such file; check the name")
        raise UserError(f"{path}: no such run; name a folder, or the file of an evaluation")


def _check_names(option: str, names: Sequence[str]) -> None:
    """Raise an error if two systems have one name."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(f"{option} {name}: the name is taken; give another as NAME=RUN")
