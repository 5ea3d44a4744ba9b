"""Make probing tasks of your own sentences: ``python -m diverse_mha.corpora.make_probing``.

Writes files in SentEval's format for the tasks that need no parser, for
``data-prep/prepare-probing.sh --from FOLDER --tasks ...``.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, add_number
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_text
from diverse_mha.common.options import parse_names
from diverse_mha.corpora.probing_tasks import (
    Labelled,
    bigram_shift,
    sentence_length,
    word_content,
)
from diverse_mha.corpora.text import make_tokeniser, read_lines

MADE = ("sentence_length", "word_content", "bigram_shift")
PARTS = (("te", 1), ("va", 1), ("tr", 10))  # as published: 100,000, 10,000 and 10,000


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="make_probing",
        description="Make probing tasks (sentence length, word content, bigram shift) of plain "
        "sentences, a tenth as many to validate and to test as to train on.",
    )
    add = parser.add_argument
    add("sentences", type=Path, help="text, a sentence a line; plain or gzip")
    add("--out", type=Path, required=True, metavar="FOLDER", help="where TASK.txt goes")
    add("--tasks", metavar="NAMES", help=f"comma list (default: {','.join(MADE)})")
    add("--language", default="en", metavar="LANG", help="whose rules the tokeniser follows (en)")
    add("--tokenised", action="store_true", help="tokens are separated by spaces already")
    add_number(parser, "seed", 1, "of all chance", least=0)
    add_number(parser, "content-words", 1000, "word content: number of words", least=2)
    text = "word content: how many more frequent words are passed over"
    add_number(parser, "content-rank", 2000, text, least=0)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Make the tasks that the command line names."""
    args = _parser().parse_args(argv)
    tasks = parse_names("--tasks", args.tasks, MADE) or MADE
    if not args.sentences.is_file():
        raise UserError(f"{args.sentences}: no such file; give a text, a sentence a line")
    sentences = read_sentences(args.sentences, None if args.tokenised else args.language)
    made = {}
    for task in tasks:
        generator = random.Random(f"{args.seed} {task}")
        made[task] = split_lines(_label(task, sentences, generator, args), generator)
        if not made[task]:
            raise UserError(f"{args.sentences}: too few sentences for {task}; give a larger text")
    for task, lines in made.items():
        path = args.out / f"{task}.txt"
        write_text(path, "".join(line + "\n" for line in lines))
        print(f"{path}: {len(lines):,} sentences")
    names = ",".join(tasks)
    print(f"next: bash data-prep/prepare-probing.sh --from {args.out} --tasks {names}")


def read_sentences(path: Path, language: str | None) -> list[list[str]]:
    """Read a text and return its different sentences as tokens.

    Args:
        path: plain or gzip.
        language: tokenise by the rules of this language; None: split at spaces.

    Raises:
        UserError: if it is not UTF-8 text.
    """
    tokenise = make_tokeniser(language) if language else str
    # A sentence that occurs twice could be trained on and tested.
    found = dict.fromkeys(" ".join(tokenise(line).split()) for line in read_lines(path))
    return [sentence.split() for sentence in found if sentence]


def split_lines(labelled: Labelled, generator: random.Random) -> list[str]:
    """Divide examples over the splits and write them as lines, training first.

    An example of validation or test whose label training lacks is left out.
    """
    order = list(labelled)
    generator.shuffle(order)
    whole = sum(share for _, share in PARTS)
    lines, start, done = {}, 0, 0
    for split, share in PARTS:
        done += share
        end = round(len(order) * done / whole)
        lines[split] = order[start:end]
        start = end
    known = Counter(label for label, _ in lines["tr"])
    if len(known) < 2:
        return []
    return [
        f"{split}\t{label}\t{' '.join(words)}"
        for split in ("tr", "va", "te")
        for label, words in lines[split]
        if label in known
    ]


def _label(task: str, sentences: list[list[str]], generator, args) -> Labelled:
    if task == "sentence_length":
        return sentence_length(sentences)
    if task == "bigram_shift":
        return bigram_shift(sentences, generator)
    try:
        return word_content(sentences, words=args.content_words, rank=args.content_rank)
    except ValueError as error:
        raise UserError(
            f"{args.sentences}: {error}; lower --content-words or --content-rank"
        ) from None


if __name__ == "__main__":
    run_cli(main)
