"""The ten probing tasks of Conneau et al. 2018, as SentEval publishes them.

``python -m diverse_mha.corpora.probing read|binarise ...``. A published file has an example a line:
``split TAB label TAB sentence``, with ``tr``, ``va`` or ``te`` for the split and a tokenised
sentence.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.binarise import MARKS, binarise, check_kept, count_words, read_columns
from diverse_mha.corpora.text import parse_lines, write_lines

SPLITS = {"tr": "train", "va": "valid", "te": "test"}

# By file: the name in the tables of Li et al. 2021, and the question.
TASKS = {
    "sentence_length": ("SeLen", "number of words, in six bins"),
    "word_content": ("WC", "which of 1,000 words the sentence has"),
    "tree_depth": ("TrDep", "depth of the parse tree"),
    "top_constituents": ("ToCo", "constituents below the root"),
    "bigram_shift": ("BShif", "whether two neighbouring words were exchanged"),
    "past_present": ("Tense", "tense of the main verb"),
    "subj_number": ("SubNm", "number of the subject of the main clause"),
    "obj_number": ("ObjNm", "number of the object of the main clause"),
    "odd_man_out": ("SOMO", "whether a noun or verb was replaced"),
    "coordination_inversion": ("CoIn", "whether two clauses were exchanged"),
}


class Example(NamedTuple):
    """One line: split (train, valid or test), label, sentence."""

    split: str
    label: str
    sentence: str


def parse_example(line: str) -> Example:
    """Read a line; raises ValueError if it is no example."""
    fields = line.split("\t")
    if len(fields) != 3:
        raise ValueError(
            f"{len(fields)} fields separated by tabs, expected 3: split, label, sentence"
        )
    split, label, sentence = fields
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; the splits are {', '.join(SPLITS)}")
    if len(label.split()) != 1:
        raise ValueError(f"label {label!r}; a label is one word")
    if not sentence.split():
        raise ValueError("the sentence is empty")
    if marks := MARKS.intersection(sentence.split()):
        raise ValueError(f"the sentence has {min(marks)}, a mark of fairseq's; take it out")
    return Example(SPLITS[split], label.strip(), sentence)


def read_examples(path: Path) -> Iterator[Example]:
    """Yield the examples of a file."""
    lines: dict[tuple[str, str], int] = {}  # first line of each split and label
    for number, example in parse_lines(path, parse_example):
        lines.setdefault((example.split, example.label), number)
        yield example
    for name, split in SPLITS.items():
        if not any(found == split for found, _ in lines):
            raise UserError(f"{path}: no line of split {name} ({split}); add some")
    for (_, label), number in lines.items():
        if ("train", label) not in lines:
            raise UserError(f"{path}:{number}: label {label!r} does not occur in training (tr)")


def _read(path: Path, folder: Path) -> str:
    splits: dict[str, list[str]] = {split: [] for split in SPLITS.values()}
    for example in read_examples(path):
        splits[example.split].append(f"{example.label}\t{example.sentence}")
    for name, lines in splits.items():
        write_lines(folder / f"{name}.tsv", lines)
    return ", ".join(f"{len(lines):,} {name}" for name, lines in splits.items()) + " sentences"


def _binarise(source: Path, target: Path, min_count: int) -> str:
    splits = read_columns(source, ("label", "input0"))
    labels = count_words(splits["train"]["label"])
    words = count_words(splits["train"]["input0"], min_count)
    check_kept(len(words), min_count)
    binarise(target, {"label": labels, "input0": words}, splits)
    return f"{len(words):,} words, {len(labels):,} classes"


def main() -> None:
    """Read a published file into a folder, or binarise such a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("read", "binarise"))
    parser.add_argument("--min-count", type=int, default=1)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    reads = args.what == "read"
    more = () if reads else (args.min_count,)
    print((_read if reads else _binarise)(args.source, args.target, *more))


if __name__ == "__main__":
    run_cli(main)
