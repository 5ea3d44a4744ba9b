"""Prepare the pairs of logical formulas for fairseq-train: ``diverse-mha prepare-logic``.

Three steps, each a folder below the output folder::

    pairs/  all pairs, a file per length, in the published format (relation, left, right)
    split/  train.tsv and valid.tsv, and test1.tsv to test12.tsv by length
    bin/    what fairseq-train reads: input0, input1, label and length, and corpus.json

Each length is split by itself, 0.8/0.1/0.1. Training and validation pairs have 1 to 6 operators
(Li et al. 2021, section 4.3: longer ones are not observed in training), test pairs 1 to 12.
Brackets stay as tokens: a sequence model sees the structure in them alone.
"""

import argparse
import random
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser, add_from, add_number, add_out, called
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import sha256_of, write_json
from diverse_mha.common.processes import sole_use
from diverse_mha.corpora.binarise import binarise, read_columns
from diverse_mha.corpora.logic.formula import TOKENS
from diverse_mha.corpora.logic.generate import DRAWS, SEED, VERSION, generate
from diverse_mha.corpora.logic.pairs import LONGEST, Pair, by_length, parse_pair, published_files
from diverse_mha.corpora.logic.relations import RELATIONS
from diverse_mha.corpora.steps import Steps
from diverse_mha.corpora.text import parse_lines, read_lines, write_lines

FOLDERS = ("pairs", "split", "bin")
LENGTHS = range(1, LONGEST + 1)
TRAIN_OPERATORS = 6
PARTS = (0.8, 0.1, 0.1)
FIELDS = ("label", "input0", "input1", "length")  # in the order of a line of split/


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog=called("prepare-logic", "data-prep/prepare-logic.sh"),
        description="Prepare the pairs of logical formulas of Bowman et al. 2014 for "
        "fairseq-train: read the published files, or generate a set by their procedure.",
        epilog="The output folder gets pairs/ (published format, by length), split/ and bin/ (for "
        "fairseq-train). A step that is done is skipped. Another finished set in the folder is "
        "replaced with --force only.",
    )
    add_out(parser, "logic")
    add_from(
        parser,
        "read the published files train0 to train12, plain or .gz, from this folder (and "
        "test0 to test12 where they are there); default: generate the pairs",
    )
    text = f"pairs to draw, repeated ones included, when they are generated ({DRAWS})"
    add_number(parser, "draws", None, text)
    add_number(parser, "seed", SEED, "of all chance", least=0)
    text = "most operators of a training or validation pair"
    add_number(parser, "train-operators", TRAIN_OPERATORS, text)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare the pairs as the command line says."""
    args = _parser().parse_args(argv)
    if args.local and args.draws:
        raise UserError("--draws has no effect with --from; leave out one of them")
    if args.train_operators > LONGEST:
        raise UserError(f"--train-operators {args.train_operators}: must be at most {LONGEST}")
    draws = args.draws or DRAWS
    with sole_use(args.out, option="--out"):
        if args.local:
            files = published_files(args.local)
            options = {"files": [[path.name, sha256_of(path)] for path in files]}
            title = "read"
            pairs = (pair for path in files for _, pair in parse_lines(path, parse_pair))
        else:
            options = {"version": VERSION, "draws": draws, "seed": args.seed}
            title, pairs = "generate", generate(draws, args.seed)
        cut = {"seed": args.seed, "train_operators": args.train_operators, "parts": PARTS}
        chosen = dict(zip(FOLDERS, (options, cut, {}), strict=True))
        steps = Steps(args.out, chosen, force=args.force)
        steps.run(title, lambda folder: _write_pairs(folder, pairs))
        steps.run("split", lambda folder: _split(args.out / "pairs", folder, cut))
        steps.run("binarise", lambda folder: _binarise(args.out / "split", folder, cut))
    print(f"ready: fairseq-train {shlex.quote(str(args.out / 'bin'))}")


def _write_pairs(folder: Path, pairs: Iterable[Pair]) -> str:
    count = 0
    for length, found in by_length(pairs).items():
        count += write_lines(folder / f"{length}.tsv", (pair.line for pair in found))
    return f"{count:,} different pairs of 0 to {LONGEST} operators"


def _split(source: Path, target: Path, options: dict) -> str:
    """Shuffle each length by itself and cut it into the three parts."""
    splits: dict[str, list[str]] = {"train": [], "valid": []}
    for length in LENGTHS:
        lines = [f"{line}\t{length}" for line in read_lines(source / f"{length}.tsv")]
        random.Random(f"{options['seed']} {length}").shuffle(lines)
        held_out = [round(part * len(lines)) for part in PARTS[1:]]
        if min(held_out) < 1:
            raise UserError(
                f"only {len(lines)} pairs of {length} operators, too few to split; "
                "give a larger --draws, or more pairs in the files of --from"
            )
        splits[f"test{length}"] = lines[: held_out[1]]
        if length <= options["train_operators"]:
            splits["valid"] += lines[held_out[1] : sum(held_out)]
            splits["train"] += lines[sum(held_out) :]
    for name, lines in splits.items():
        write_lines(target / f"{name}.tsv", lines)
    tests = sum(len(lines) for name, lines in splits.items() if name.startswith("test"))
    return f"{len(splits['train']):,} train, {len(splits['valid']):,} valid, {tests:,} test pairs"


def _binarise(source: Path, target: Path, options: dict) -> str:
    splits = read_columns(source, FIELDS)
    train = splits["train"]
    words = Counter(word for text in train["input0"] + train["input1"] for word in text.split())
    labels = Counter(train["label"])
    # Every token, relation and length has its place, whatever a small set happens to hold.
    tokens = {token: words[token] for token in TOKENS}
    dictionaries = {
        "label": {sign: labels[sign] for sign in RELATIONS},
        "input0": tokens,
        "input1": tokens,
        "length": {str(length): 1 for length in LENGTHS},
    }
    binarise(target, dictionaries, splits)
    write_json(target / "corpus.json", {"corpus": "logic", **options})
    return f"{len(splits)} splits, {len(TOKENS)} tokens, {len(RELATIONS)} relations"
