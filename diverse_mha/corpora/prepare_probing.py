"""Prepare the probing tasks for fairseq-train: ``diverse-mha prepare-probing``.

Two steps a task, each a folder below ``OUT/TASK``::

    text/  the splits as read: label, tab, sentence
    bin/   what fairseq-train reads: input0 and label
"""

import argparse
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, add_from, add_number, add_out, called
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import sha256_of
from diverse_mha.common.options import parse_names
from diverse_mha.common.processes import sole_use
from diverse_mha.corpora import download
from diverse_mha.corpora.binarise import binarise, check_kept, count_words, read_columns
from diverse_mha.corpora.probing import SPLITS, TASKS, published_file, read_examples
from diverse_mha.corpora.published import PublishedFile
from diverse_mha.corpora.steps import Steps
from diverse_mha.corpora.text import write_lines

FOLDERS = ("text", "bin")


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:24}{table:7}{about}" for name, (table, about) in TASKS.items())
    parser = OneLineParser(
        prog=called("prepare-probing", "data-prep/prepare-probing.sh"),
        description="Prepare the probing tasks of Conneau et al. 2018 for fairseq-train, from "
        "SentEval's files\n(about 10 MB each to download, continued where it stopped).",
        epilog=f"tasks:\n{names}\n\nThe output folder gets a folder a task with text/ and bin/ "
        "(for fairseq-train).\nA step that is done is skipped; other data of a task are replaced "
        "with --force only.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_out(parser, "probing")
    add_from(parser, "take TASK.txt from this folder instead of downloading it")
    parser.add_argument("--tasks", metavar="NAMES", help="comma list (default: all ten)")
    text = "words that training has fewer than N times become <unk>"
    add_number(parser, "min-count", 1, text)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare the tasks that the command line names."""
    args = _parser().parse_args(argv)
    tasks = parse_names("--tasks", args.tasks, tuple(TASKS)) or TASKS
    files = {task: published_file(task) for task in tasks}
    with sole_use(args.out, option="--out"):
        if args.local is not None:  # all must be there before the first is prepared
            cure = "name the tasks it has with --tasks"
            download.require_local(list(files.values()), args.local, cure)
        steps = {}
        for task, file in files.items():  # all are checked before the first is prepared
            options = {"task": task}
            if args.local is not None:
                options = {"task": task, "file": sha256_of(args.local / file.name)}
            chosen = dict(zip(FOLDERS, (options, {"min_count": args.min_count}), strict=True))
            steps[task] = Steps(args.out / task, chosen, force=args.force)
        for task, file in files.items():
            steps[task].run(f"{task}: read", partial(_read, file, args))
            work = partial(_binarise, args.out / task / "text", args.min_count)
            steps[task].run(f"{task}: binarise", work)
    for task in tasks:
        print(f"ready: fairseq-train {shlex.quote(str(args.out / task / 'bin'))}")


def _read(file: PublishedFile, args: argparse.Namespace, folder: Path) -> str:
    local = args.local
    path = local / file.name if local else download.download(file, args.out / "download")
    splits: dict[str, list[str]] = {split: [] for split in SPLITS.values()}
    try:
        for example in read_examples(path):
            splits[example.split].append(f"{example.label}\t{example.sentence}")
    except UserError as error:
        cure = "" if local else "; delete the file, and it is fetched again"
        raise UserError(f"{error}{cure}") from None
    for name, lines in splits.items():
        write_lines(folder / f"{name}.tsv", lines)
    return ", ".join(f"{len(lines):,} {name}" for name, lines in splits.items()) + " sentences"


def _binarise(source: Path, min_count: int, target: Path) -> str:
    splits = read_columns(source, ("label", "input0"))
    labels = count_words(splits["train"]["label"])
    words = count_words(splits["train"]["input0"], min_count)
    check_kept(len(words), min_count)
    binarise(target, {"label": labels, "input0": words}, splits)
    return f"{len(words):,} words, {len(labels):,} classes"
