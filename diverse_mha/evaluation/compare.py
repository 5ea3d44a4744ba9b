"""``diverse-mha compare``: is one method better than another, over seeds and sentences?"""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.arguments import add_number
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from diverse_mha.common.options import split_list
from diverse_mha.common.places import check_file
from diverse_mha.common.tables import to_text, write_texts
from diverse_mha.evaluation.bleu import check_scorer
from diverse_mha.evaluation.comparison.runs import read_run, read_scores
from diverse_mha.evaluation.comparison.systems import RESAMPLES, SEED, System, compare_systems
from diverse_mha.evaluation.comparison.tables import lay_out, to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``diverse-mha compare``."""
    parser.allow_abbrev = False
    parser.epilog = (
        "A RUN is a folder with an evaluation, an evaluated checkpoint, the JSON file of an "
        "evaluation, or, with --reference, a file of translations. Give one run a seed.\n\n"
        "examples:\n"
        "  diverse-mha compare --baseline runs/base-seed* --system runs/mine-seed*\n"
        "  diverse-mha compare --scores base=a1.txt,a2.txt --scores mine=b1.txt,b2.txt\n"
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
    what.add_argument(
        "--result", metavar="NAME",
        help="which result of a run that has several: one whose name contains NAME "
        "(default: the newest of the best checkpoint)",
    )  # fmt: skip
    statistics = parser.add_argument_group("statistics")
    statistics.add_argument(
        "--reference", metavar="REF", help="plain-text reference (default: the evaluation's)"
    )
    statistics.add_argument(
        "--tokenize", metavar="NAME",
        help="sacreBLEU's tokeniser (default: the evaluation's, or 13a for translations)",
    )  # fmt: skip
    text = f"draws of the bootstrap (default: {RESAMPLES:,})"
    add_number(statistics, "resamples", None, text, least=100)
    add_number(statistics, "seed", None, f"random seed of the bootstrap (default: {SEED})")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help="also write the results, and FILE.md, FILE.csv and FILE.tex",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Carry out ``diverse-mha compare``."""
    if args.output is not None:
        check_file("--output", args.output, ".json")
    if args.tokenize is not None:
        _check_tokeniser(args.tokenize)
    if args.scores is not None:
        return _scored(args)
    return _methods(args)


def _scored(args: argparse.Namespace) -> int:
    """Compare systems by another program's sentence scores."""
    for name in ("baseline", "system", "reference", "tokenize", "result"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name}: does not go with --scores; leave it out")
    if len(args.scores) < 2:
        raise UserError("--scores is given once; give it for the baseline and for each system")
    groups = _named_groups(args.scores, "--scores")
    systems = [System(name, tuple(map(read_scores, paths))) for name, paths in groups]
    first = systems[0].runs[0]
    for run in (run for one in systems for run in one.runs):
        if run.test != first.test:
            counts = f"{run.test[0]} scores, but {first.path} has {first.test[0]}"
            raise UserError(f"--scores {run.path}: has {counts}; score the same sentences")
    return _report(args, systems)


def _methods(args: argparse.Namespace) -> int:
    """Compare methods over seeds and sentences."""
    if not args.baseline or not args.system:
        missing = "--system" if args.baseline else "--baseline"
        raise UserError(f"{missing} is missing; name the runs of both sides")
    groups = _named_groups([args.baseline, *args.system], "--system")
    reference = Path(args.reference) if args.reference else None
    systems = []
    for name, paths in groups:
        how = {"reference": reference, "tokenize": args.tokenize, "result": args.result}
        systems.append(System(name, tuple(read_run(path, **how) for path in paths)))
    for name in ("tokenize", "resamples", "seed"):
        value = getattr(args, name)
        if value is not None and not systems[0].runs[0].statistics:
            raise UserError(f"--{name} {value}: is for translations, these runs have none; omit it")
    return _report(args, systems)


def _report(args: argparse.Namespace, systems: Sequence[System]) -> int:
    """Compare systems with the first; print and write the result."""
    for ending in (".md", ".csv", ".tex") if args.output is not None else ():
        check_file("--output", args.output.with_suffix(ending))
    resamples, seed = args.resamples or RESAMPLES, args.seed or SEED
    found = compare_systems(systems, resamples=resamples, seed=seed)
    layout = lay_out(found, f"Compared with {systems[0].name}", resamples=resamples)
    said = to_text(layout)
    if args.output is not None:
        files = write_texts(layout, args.output.parent, args.output.stem)
        content = {"title": layout.title, "notes": layout.notes, "systems": to_json(found)}
        write_json(args.output, content | {"resamples": resamples, "seed": seed})
        said += "\nwritten: " + ", ".join(map(str, [args.output, *files]))
    print(said)
    return 0


def _named_groups(groups: Sequence[Sequence[str]], option: str) -> list[tuple[str, list[Path]]]:
    """Return each system's name and runs; systems of one name get a longer one."""
    named = [_named_runs(words) for words in groups]
    names = [name or short for name, short, _, _ in named]
    for place, (name, _, long, _) in enumerate(named):
        if not name and names.count(names[place]) > 1:
            named[place] = (long, *named[place][1:])
    found = [(name or short, paths) for name, short, _, paths in named]
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{option} {name}: the name is taken; give another as NAME=RUN")
    return found


def _named_runs(words: Sequence[str]) -> tuple[str, str, str, list[Path]]:
    """Read ``NAME=RUN,RUN RUN``: the given name or "", a short and a long default, and the runs.

    The default is the name of the run's folder, or of the file or folder that names a seed.
    """
    name, separator, first = words[0].partition("=")
    if not separator or any(map(os.path.exists, (words[0], words[0].partition(",")[0]))):
        name, first = "", words[0]
    given = [first, *words[1:]]
    parts = (
        part for word in given for part in ([word] if os.path.exists(word) else split_list(word))
    )
    paths = [Path(part) for part in parts if part]
    if not paths:
        raise UserError(f"{words[0]}: names no run; write NAME=RUN,RUN")
    path, folder = paths[0], paths[0].parent
    own = path if path.is_dir() or not folder.name else folder
    # ``reproduce`` puts the seed behind a run's name.
    run = next((place for place in (path, folder) if "seed" in place.name), own)
    short = re.split(r"[._-]?seed", run.name)[0] or str(run)
    return name, short, str(Path(folder.name, path.name)), paths


def _check_tokeniser(name: str) -> None:
    from sacrebleu.metrics import BLEU

    known = sorted(BLEU.TOKENIZERS)
    if name not in known:
        raise UserError(f"--tokenize {name}: unknown; choose from {', '.join(known)}")
    check_scorer("", name)
