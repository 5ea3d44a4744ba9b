"""Pairs of logical formulas, from a seed or published files to fairseq's data.

The data of logical inference (Bowman et al. 2014; Li et al. 2021, section 4.3), step by step for
``prepare-logic.sh``: ``python -m diverse_mha.corpora.logic read|generate|split|binarise``.

A formula over six variables is fully bracketed, the operator with its right-hand side::

    formula  =  variable  |  ( not formula )  |  ( formula ( operator formula ) )

Its meaning is the set of worlds in which it is true, an integer of 64 bits: bit w says whether it
is true in world w, and bit v of w is the value of variable number v.

A published file has a pair on each line, ``relation TAB left TAB right``, all of one length:
the number of operators of the side with more of them, at most 12.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_json
from diverse_mha.corpora.binarise import binarise, read_columns
from diverse_mha.corpora.text import parse_lines, read_lines, write_lines

VARIABLES = "abcdef"
TOKENS = (*VARIABLES, "and", "or", "not", "(", ")")
RELATIONS = ("<", ">", "=", "^", "|", "v", "#")
LONGEST = 12
LENGTHS = range(1, LONGEST + 1)
PARTS = (0.8, 0.1, 0.1)
FIELDS = ("label", "input0", "input1", "length")  # in the order of a line of split/
VERSION = 1  # increased when a change makes a seed give other pairs
WORLDS = 2 ** len(VARIABLES)
_EVERYWHERE = 2**WORLDS - 1  # a tautology; 0 is a contradiction
_FILE_NAME = re.compile(r"train\d+(\.gz)?|test\d+(\.gz)?")


class Formula(NamedTuple):
    """A formula: tokens separated by spaces, and the worlds in which it is true."""

    text: str
    worlds: int


def grow(generator: random.Random, names: str, limit: int = LONGEST) -> Formula:
    """Grow one side of a pair at random from variables.

    With probability 5/9, or if the limit is below 2, it is a variable; else ``and`` or ``or`` of
    two sides with half the limit, rounded down. It is negated with probability 1/3, at every level.
    """
    if limit < 2 or generator.random() < 5 / 9:
        name = generator.choice(names)
        bit = VARIABLES.index(name)
        text, worlds = name, sum(1 << world for world in range(WORLDS) if world >> bit & 1)
    else:
        operator = generator.choice(("and", "or"))
        left, right = (grow(generator, names, limit // 2) for _ in range(2))
        text = f"( {left.text} ( {operator} {right.text} ) )"
        both = left.worlds & right.worlds, left.worlds | right.worlds
        worlds = both[operator == "or"]
    if generator.random() < 1 / 3:
        return Formula(f"( not {text} )", _EVERYWHERE ^ worlds)
    return Formula(text, worlds)


def relation(left: int, right: int) -> str:
    """Return the relation of two sets of worlds, neither empty nor all of them.

    MacCartney and Manning 2009; Bowman et al. 2014, Table 1. Equivalence =, forward and reverse
    entailment < and >; with no world in common negation ^ if they are all worlds together, else
    alternation |; else cover v if they are all worlds together, or independence #.
    """
    common, together = left & right, left | right
    if left == right:
        return "="
    if common == left:
        return "<"
    if common == right:
        return ">"
    if not common:
        return "^" if together == _EVERYWHERE else "|"
    return "v" if together == _EVERYWHERE else "#"


def generate(draws: int, seed: int) -> Iterator[str]:
    """Draw pairs as lines, repeated ones included, by the procedure of Bowman et al. 2014.

    For each pair four of the six variables are drawn; a pair with a tautology or a contradiction is
    drawn again. Short pairs run out, so the shares of the lengths depend on ``draws``.
    """
    generator = random.Random(seed)
    while draws:
        names = "".join(generator.sample(VARIABLES, 4))
        left, right = grow(generator, names), grow(generator, names)
        if all(0 < side.worlds < _EVERYWHERE for side in (left, right)):
            draws -= 1
            yield f"{relation(left.worlds, right.worlds)}\t{left.text}\t{right.text}"


def length(line: str) -> int:
    """Return the length of a pair."""
    sides = (side.split() for side in line.split("\t")[1:])
    return min(LONGEST, max(sum(map(side.count, ("and", "or", "not"))) for side in sides))


def parse_pair(line: str) -> str:
    """Parse a line of a published file; raises ValueError for another line."""
    sign, *sides = line.split("\t")
    if sign not in RELATIONS or len(sides) != 2 or not all(map(str.split, sides)):
        raise ValueError(
            f"{line[:40]!r} is no relation ({' '.join(RELATIONS)}), tab, side, tab, side"
        )
    unknown = {token for side in sides for token in side.split()}.difference(TOKENS)
    if unknown:
        raise ValueError(f"unknown {min(unknown)!r}; formulas have {' '.join(TOKENS)}")
    return line


def _read(folder: Path) -> Iterator[str]:
    files = sorted(path for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name))
    names = {path.name.removesuffix(".gz") for path in files}
    missing = [f"train{n}" for n in LENGTHS if f"train{n}" not in names]
    if missing:
        raise UserError(
            f"{folder} lacks {', '.join(missing)} (plain or .gz) of the published files; "
            "add them, or leave out --from to generate the pairs"
        )
    # By length, and the files of training first.
    for path in sorted(files, key=lambda p: (int(re.sub(r"\D", "", p.name)), p.name[:2] != "tr")):
        yield from (line for _, line in parse_lines(path, parse_pair))


def _write_pairs(folder: Path, pairs: Iterable[str]) -> str:
    """Write a file for each length, without repeated pairs."""
    found: dict[int, dict[str, None]] = {n: {} for n in range(LONGEST + 1)}
    for line in pairs:
        found[length(line)].setdefault(line)
    count = sum(write_lines(folder / f"{n}.tsv", lines) for n, lines in found.items())
    return f"{count:,} different pairs of 0 to {LONGEST} operators"


def _split(source: Path, target: Path, options: dict) -> str:
    """Shuffle each length separately and cut it into the three parts."""
    splits: dict[str, list[str]] = {"train": [], "valid": []}
    for n in LENGTHS:
        lines = [f"{line}\t{n}" for line in read_lines(source / f"{n}.tsv")]
        random.Random(f"{options['seed']} {n}").shuffle(lines)
        held_out = [round(part * len(lines)) for part in PARTS[1:]]
        if min(held_out) < 1:
            raise UserError(
                f"only {len(lines)} pairs of {n} operators, too few to split; "
                "give a larger --draws, or more pairs in the files of --from"
            )
        splits[f"test{n}"] = lines[: held_out[1]]
        if n <= options["train_operators"]:
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
        "length": {str(n): 1 for n in LENGTHS},
    }
    binarise(target, dictionaries, splits)
    write_json(target / "corpus.json", {"corpus": "logic", **options})
    return f"{len(splits)} splits, {len(TOKENS)} tokens, {len(RELATIONS)} relations"


def main() -> None:
    """Run one step, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("what", choices=("read", "generate", "split", "binarise"))
    add("--version", type=int, choices=[VERSION], help="of the generator")
    add("--files", help="checksum of what is read, which decides nothing")
    add("--draws", type=int)
    add("--seed", type=int)
    add("--train-operators", type=int)
    add("places", nargs="+", type=Path, help="what is read, if anything, and what is written")
    args = parser.parse_args()
    cut = {"seed": args.seed, "train_operators": args.train_operators, "parts": PARTS}
    if args.what == "generate":
        print(_write_pairs(args.places[0], generate(args.draws, args.seed)))
    elif args.what == "read":
        print(_write_pairs(args.places[1], _read(args.places[0])))
    else:
        print({"split": _split, "binarise": _binarise}[args.what](*args.places, cut))


if __name__ == "__main__":
    run_cli(main)
