"""From pairs of logical formulas to fairseq's data, step by step, for ``prepare-logic.sh``.

``python -m diverse_mha.corpora.logic.data read|generate|split|binarise OPTIONS [FOLDER] FOLDER``.
Each length is split separately, 0.8/0.1/0.1. Training and validation pairs have 1 to 6 operators
(Li et al. 2021, section 4.3), test pairs 1 to 12. Brackets are tokens, as they alone show a
sequence model the structure.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_json
from diverse_mha.corpora.binarise import binarise, read_columns
from diverse_mha.corpora.logic.formula import TOKENS
from diverse_mha.corpora.logic.generate import DRAWS, SEED, VERSION, generate
from diverse_mha.corpora.logic.pairs import LONGEST, Pair, by_length, parse_pair, published_files
from diverse_mha.corpora.logic.relations import RELATIONS
from diverse_mha.corpora.text import parse_lines, read_lines, write_lines

LENGTHS = range(1, LONGEST + 1)
TRAIN_OPERATORS = 6
PARTS = (0.8, 0.1, 0.1)
FIELDS = ("label", "input0", "input1", "length")  # in the order of a line of split/


def _write_pairs(folder: Path, pairs: Iterable[Pair]) -> str:
    count = 0
    for length, found in by_length(pairs).items():
        count += write_lines(folder / f"{length}.tsv", (pair.line for pair in found))
    return f"{count:,} different pairs of 0 to {LONGEST} operators"


def _split(source: Path, target: Path, options: dict) -> str:
    """Shuffle each length separately and cut it into the three parts."""
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
    # Every token, relation and length, even if a small set lacks it.
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


def main() -> None:
    """Do one step, and print what it made."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("what", choices=("read", "generate", "split", "binarise"))
    add("--version", type=int, choices=[VERSION], help="of the generator")
    add("--files", help="checksum of what is read, which decides nothing")
    add("--draws", type=int, default=DRAWS)
    add("--seed", type=int, default=SEED)
    add("--train-operators", type=int, default=TRAIN_OPERATORS)
    add("places", nargs="+", type=Path, help="what is read, if anything, and what is written")
    args = parser.parse_args()
    cut = {"seed": args.seed, "train_operators": args.train_operators, "parts": PARTS}
    if args.what == "generate":
        said = _write_pairs(args.places[0], generate(args.draws, args.seed))
    elif args.what == "read":
        files = published_files(args.places[0])
        pairs = (pair for path in files for _, pair in parse_lines(path, parse_pair))
        said = _write_pairs(args.places[1], pairs)
    else:
        said = {"split": _split, "binarise": _binarise}[args.what](*args.places, cut)
    print(said)


if __name__ == "__main__":
    run_cli(main)
