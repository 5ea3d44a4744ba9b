"""Prepare the probing tasks for fairseq-train: ``data-prep/prepare-probing.sh``.

Two steps a task, each a folder below ``OUT/TASK``::

    text/  the splits as read: label, tab, sentence
    bin/   what fairseq-train reads: input0 and label
"""

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, add_from, add_number, add_out, called
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import sha256_of
from diverse_mha.common.options import split_list
from diverse_mha.common.processes import sole_use
from diverse_mha.corpora import download
from diverse_mha.corpora.binarise import binarise, count_words, write_dictionary
from diverse_mha.corpora.probing import SPLITS, TASKS, published_file, read_examples
from diverse_mha.corpora.steps import Steps
from diverse_mha.corpora.text import read_lines, write_lines

FOLDERS = ("text", "bin")


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:24}{table:7}{about}" for name, (table, about) in TASKS.items())
    parser = OneLineParser(
        prog=called("prepare-probing", "data-prep"),
        description="Prepare the probing tasks of Conneau et al. 2018 for fairseq-train, from "
        "SentEval's files\n(about 10 MB each to download, continued where it stopped).",
        epilog=f"tasks:\n{names}\n\nThe output folder gets a folder a task with text/ and bin/ "
        "(for fairseq-train).\nA step that is done is skipped.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_out(parser, "probing")
    add_from(parser, "take TASK.txt from this folder instead of downloading it")
    parser.add_argument("--tasks", metavar="NAMES", help="comma list (default: all ten)")
    text = "words that training has fewer than N times become <unk>"
    add_number(parser, "min-count", 1, text)
    return parser


def parse_tasks(value: str | None, legal: Sequence[str] = tuple(TASKS)) -> list[str]:
    """Read a comma list of tasks, None for all.

    Raises:
        UserError: for an unknown or repeated one.
    """
    names = split_list(value) if value is not None else list(legal)
    for name in names:
        if name not in legal:
            raise UserError(f"--tasks {value}: unknown {name!r}; choose from {', '.join(legal)}")
        if names.count(name) > 1:
            raise UserError(f"--tasks {value}: {name!r} is given twice; name it once")
    return names


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare the tasks that the command line names."""
    args = _parser().parse_args(argv)
    tasks = parse_tasks(args.tasks)
    with sole_use(args.out, option="--out"):
        if args.local is not None:  # all must be there before the first is prepared
            names = [f"{task}.txt" for task in tasks]
            missing = [name for name in names if not (args.local / name).is_file()]
            if missing:
                what = "it" if len(missing) == 1 else "them"
                raise UserError(
                    f"{args.local} has no {', no '.join(missing)}; put {what} there, or name the "
                    "tasks it has with --tasks"
                )
        for task in tasks:
            _prepare(task, args)
    for task in tasks:
        print(f"ready: fairseq-train {shlex.quote(str(args.out / task / 'bin'))}")


def _prepare(task: str, args: argparse.Namespace) -> None:
    file = published_file(task)
    options = {"task": task, "urls": file.urls}
    if args.local is not None:
        options = {"task": task, "file": sha256_of(args.local / file.name)}

    def read(folder: Path) -> str:
        path = (
            download.find_local(file, args.local)
            if args.local is not None
            else download.download(file, args.out / "download")
        )
        return _write_text(path, folder)

    steps = Steps(args.out / task, FOLDERS)
    steps.run(f"{task}: read", options, read)
    source = args.out / task / "text"
    steps.run(
        f"{task}: binarise",
        {"min_count": args.min_count},
        lambda folder: _binarise(source, folder, args.min_count),
    )


def _write_text(path: Path, folder: Path) -> str:
    splits: dict[str, list[str]] = {split: [] for split in SPLITS.values()}
    for example in read_examples(path):
        splits[example.split].append(f"{example.label}\t{example.sentence}")
    counts = {name: write_lines(folder / f"{name}.tsv", lines) for name, lines in splits.items()}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) + " sentences"


def _binarise(source: Path, target: Path, min_count: int) -> str:
    columns = {}
    for split in SPLITS.values():
        rows = (line.partition("\t") for line in read_lines(source / f"{split}.tsv"))
        columns[split] = list(zip(*((label, sentence) for label, _, sentence in rows), strict=True))
    labels, sentences = columns["train"]
    words = count_words(sentences, min_count)
    write_dictionary(target / "label" / "dict.txt", Counter(labels))
    write_dictionary(target / "input0" / "dict.txt", words)
    for split, (labels_of, sentences_of) in columns.items():
        binarise(target / "label", split, labels_of, end=False)
        binarise(target / "input0", split, sentences_of)
    return f"{len(words):,} words, {len(set(labels)):,} classes"


if __name__ == "__main__":
    run_cli(main)
