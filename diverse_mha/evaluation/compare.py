"""``diverse-mha compare``: is one method better than another, over seeds and sentences?"""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from diverse_mha.common.places import check_file
from diverse_mha.common.tables import to_text, write_texts
from diverse_mha.evaluation.comparison.runs import read_run, read_scores
from diverse_mha.evaluation.comparison.systems import RESAMPLES, SEED, System, compare_systems
from diverse_mha.evaluation.comparison.tables import lay_out, to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha compare``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "A RUN is a folder with an evaluation, or the JSON file of one. Give one run a seed.\n\n"
        "examples:\n"
        "  diverse-mha compare --baseline runs/base-seed* --system runs/mine-seed*\n"
        "  diverse-mha compare --scores base=a1.txt a2.txt --scores mine=b1.txt b2.txt\n"
        "  sacrebleu REF -i A B -m bleu --paired-bs    # two translations"
    )
    what = parser.add_argument_group("what to compare")
    what.add_argument(
        "--baseline", nargs="+", metavar="[NAME=]RUN", help="runs of the method to compare with"
    )
    what.add_argument(
        "--system", nargs="+", action="append", metavar="[NAME=]RUN",
        help="runs of another method; may be given several times",
    )  # fmt: skip
    what.add_argument(
        "--scores", nargs="+", action="append", metavar="NAME=FILE",
        help="scores of another program, one number a sentence and line, one file a seed; once "
        "for each system, the baseline first",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help="also write the results, and FILE.md, FILE.csv and FILE.tex",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha compare``."""
    if args.output is not None:
        check_file("--output", args.output, ".json")
        for ending in (".md", ".csv", ".tex"):
            check_file("--output", args.output.with_suffix(ending))
    option, read = ("--system", read_run) if args.scores is None else ("--scores", read_scores)
    groups = _named(_groups(args), option)
    systems = [System(name, tuple(map(read, paths))) for name, paths in groups.items()]
    found = compare_systems(systems)
    layout = lay_out(found, f"Compared with {systems[0].name}")
    said = to_text(layout)
    if args.output is not None:
        files = write_texts(layout, args.output.parent, args.output.stem)
        content = {"title": layout.title, "notes": layout.notes, "systems": to_json(found)}
        write_json(args.output, content | {"resamples": RESAMPLES, "seed": SEED})
        said += "\nwritten: " + ", ".join(map(str, [args.output, *files]))
    print(said)
    return 0


def _groups(args: argparse.Namespace) -> list[list[str]]:
    """Return the words that name the runs of each system, the baseline first."""
    if args.scores is None:
        if not args.baseline or not args.system:
            missing = "--system" if args.baseline else "--baseline"
            raise UserError(f"{missing} is missing; name the runs of both sides")
        return [args.baseline, *args.system]
    for name in ("baseline", "system"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name}: does not go with --scores; leave it out")
    if len(args.scores) < 2:
        raise UserError("--scores is given once; give it for the baseline and for each system")
    return args.scores


def _named(groups: Sequence[Sequence[str]], option: str) -> dict[str, list[Path]]:
    """Return runs by name, of words such as ``NAME=RUN RUN``.

    The default name is that of the first run's folder, or of the file or folder that names a seed.
    """
    found: dict[str, list[Path]] = {}
    for words in groups:
        name, separator, first = words[0].partition("=")
        if not separator or os.path.exists(words[0]):
            name, first = "", words[0]
        path = Path(first)
        own = path if path.is_dir() or "seed" in path.name else path.parent
        name = name or re.split(r"[._-]?seed", own.name)[0] or str(path)
        if name in found:
            raise UserError(f"{option} {name}: the name is taken; give another as NAME=RUN")
        found[name] = [path, *map(Path, words[1:])]
    return found
