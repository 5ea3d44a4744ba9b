"""Prepares the probing tasks of Conneau et al. 2018 (SentEval), ten sentence classification tasks.

``python -m diverse_mha.corpora.probing read|binarise ...``. A published file has an example on each
line: ``split TAB label TAB sentence``. The split is ``tr``, ``va`` or ``te``. The sentence is
tokenised.
"""

import argparse
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.binarise import MARKS, binarise, count_words, read_columns
from diverse_mha.corpora.text import parse_lines, write_lines

SPLITS = {"tr": "train", "va": "valid", "te": "test"}

TASKS = (  # names of the files
    "sentence_length word_content tree_depth top_constituents bigram_shift past_present "
    "subj_number obj_number odd_man_out coordination_inversion"
).split()


def parse_example(line: str) -> tuple[str, str, str]:
    """Return split, label and sentence of a line; raises ValueError for a malformed line."""
    fields = line.split("\t")
    if len(fields) != 3 or fields[0] not in SPLITS:
        raise ValueError(
            "expected SPLIT, LABEL and SENTENCE separated by tabs; SPLIT is tr, va or te"
        )
    split, label, sentence = fields
    if len(label.split()) != 1:
        raise ValueError(f"label {label!r}: must be one word")
    if not sentence.split():
        raise ValueError("the sentence is empty")
    if marks := MARKS.intersection(sentence.split()):
        raise ValueError(f"the sentence has {min(marks)}, fairseq's special token; remove it")
    return SPLITS[split], label.strip(), sentence


def _read(path: Path, folder: Path) -> str:
    splits: dict[str, list[str]] = {split: [] for split in SPLITS.values()}
    # split -> label -> number of the first line with the label
    first: dict[str, dict[str, int]] = {split: {} for split in SPLITS.values()}
    for number, (split, label, sentence) in parse_lines(path, parse_example):
        first[split].setdefault(label, number)
        splits[split].append(f"{label}\t{sentence}")
    for split, lines in splits.items():
        if not lines:
            raise UserError(f"{path}: no line of split {split[:2]} ({split}); add some")
        for label in first[split].keys() - first["train"].keys():
            number = first[split][label]
            raise UserError(f"{path}:{number}: label {label!r} has no example of split tr")
        write_lines(folder / f"{split}.tsv", lines)
    return ", ".join(f"{len(lines):,} {split}" for split, lines in splits.items()) + " sentences"


def _binarise(source: Path, target: Path, min_count: int) -> str:
    splits = read_columns(source, ("label", "input0"))
    labels = count_words(splits["train"]["label"])
    words = count_words(splits["train"]["input0"], min_count)
    binarise(target, {"label": labels, "input0": words}, splits)
    return f"{len(words):,} words, {len(labels):,} classes"


def main() -> None:
    """Split a published file into TSV files, or binarise a folder of TSV files."""
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
