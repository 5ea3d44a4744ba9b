"""Prepares data of logical inference: pairs of formulas, generated or from published files.

The task is that of Bowman et al. 2014 and Li et al. 2021, section 4.3. ``prepare-logic.sh`` runs
the steps as ``python -m diverse_mha.corpora.logic read|generate|split|binarise``.

Formulas have six variables and are fully bracketed. An operator and its right-hand side are in
brackets, too::

    formula  =  variable  |  ( not formula )  |  ( formula ( operator formula ) )

The meaning of a formula is the set of worlds in which it is true, as a 64-bit integer. Bit w is 1
if the formula is true in world w. Bit v of the number w is the value of variable v in world w.

A published file has a pair on each line, ``relation TAB left TAB right``. All pairs of a file have
the same length: the number of operators of the longer side, at most 12.
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
from diverse_mha.common.vocabulary import dictionaries_of
from diverse_mha.corpora.binarise import binarise, read_columns
from diverse_mha.corpora.text import parse_lines, read_lines, write_lines

VARIABLES = "abcdef"
TOKENS = (*VARIABLES, "and", "or", "not", "(", ")")
RELATIONS = ("<", ">", "=", "^", "|", "v", "#")
LONGEST = 12
LENGTHS = range(1, LONGEST + 1)
PARTS = (0.8, 0.1, 0.1)
FIELDS = ("label", "input0", "input1", "length")  # columns of the files in split/
VERSION = 1  # increased when a change of the code changes the pairs of a seed
WORLDS = 2 ** len(VARIABLES)
_EVERYWHERE = 2**WORLDS - 1  # a tautology; 0 is a contradiction
_FILE_NAME = re.compile(r"train\d+(\.gz)?|test\d+(\.gz)?")


class Formula(NamedTuple):
    """A formula: tokens separated by spaces, and the worlds in which it is true."""

    text: str
    worlds: int


def grow(generator: random.Random, names: str, limit: int = LONGEST) -> Formula:
    """Return a random formula, one side of a pair, with variables from ``names``.

    With probability 5/9, or if ``limit`` is below 2, the formula is a variable. Otherwise it joins
    two random formulas with half the limit (rounded down) by ``and`` or ``or``. It is then negated
    with probability 1/3, and so is each of its parts.
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
    """Return the relation of two sets of worlds, of which none is empty or holds all worlds.

    MacCartney and Manning 2009; Bowman et al. 2014, Table 1:

    - ``=`` equivalence, ``<`` forward entailment, ``>`` reverse entailment;
    - without a common world: ``^`` negation if the union is all worlds, or else ``|`` alternation;
    - otherwise: ``v`` cover if the union is all worlds, or else ``#`` independence.
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
    """Yield random pairs as lines, by the procedure of Bowman et al. 2014. Pairs may be repeated.

    For each pair, four of the six variables are drawn; a pair with a tautology or a contradiction
    is drawn again. There are few different short pairs, so the share of each length among different
    pairs depends on ``draws``.
    """
    generator = random.Random(seed)
    while draws:
        names = "".join(generator.sample(VARIABLES, 4))
        left, right = grow(generator, names), grow(generator, names)
        if all(0 < side.worlds < _EVERYWHERE for side in (left, right)):
            draws -= 1
            yield f"{relation(left.worlds, right.worlds)}\t{left.text}\t{right.text}"


def length(line: str) -> int:
    """Return the length of a pair: the operators of its longer side, at most 12."""
    sides = (side.split() for side in line.split("\t")[1:])
    return min(LONGEST, max(sum(map(side.count, ("and", "or", "not"))) for side in sides))


def parse_pair(line: str) -> str:
    """Return a line of a published file. Raise ValueError if the line is malformed."""
    sign, *sides = line.split("\t")
    if sign not in RELATIONS or len(sides) != 2 or not all(map(str.split, sides)):
        raise ValueError(
            f"{line[:40]!r}: expected RELATION, LEFT and RIGHT separated by tabs; RELATION is one "
            f"of {' '.join(RELATIONS)}"
        )
    unknown = {token for side in sides for token in side.split()}.difference(TOKENS)
    if unknown:
        raise ValueError(f"unknown token {min(unknown)!r}; formulas have {' '.join(TOKENS)}")
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
    # Sorted by length; for the same length, training files come first.
    for path in sorted(files, key=lambda p: (int(re.sub(r"\D", "", p.name)), p.name[:2] != "tr")):
        yield from (line for _, line in parse_lines(path, parse_pair))


def _write_pairs(folder: Path, pairs: Iterable[str]) -> str:
    """Write a file for each length, without repeated pairs; return a summary."""
    by_length: dict[int, dict[str, None]] = {n: {} for n in range(LONGEST + 1)}
    for line in pairs:
        by_length[length(line)].setdefault(line)
    count = sum(write_lines(folder / f"{n}.tsv", lines) for n, lines in by_length.items())
    return f"{count:,} different pairs of 0 to {LONGEST} operators"


def _split(source: Path, target: Path, options: dict) -> str:
    """Shuffle the pairs of each length, and split them into test, valid and train by ``PARTS``."""
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
    words = Counter(word for text in [*train["input0"], *train["input1"]] for word in text.split())
    labels = Counter(train["label"])
    # Dictionaries have every token, relation and length, even if a small data set lacks them.
    tokens = {token: words[token] for token in TOKENS}
    dictionaries = {
        "label": {sign: labels[sign] for sign in RELATIONS},
        "input0": tokens,
        "input1": tokens,
        "length": {str(n): 1 for n in LENGTHS},
    }
    binarise(target, dictionaries, splits)
    hashes = dictionaries_of(target, "input0/dict.txt", "input1/dict.txt", "label/dict.txt")
    write_json(target / "corpus.json", {"corpus": "logic", **options, "dictionaries": hashes})
    return f"{len(splits)} splits, {len(TOKENS)} tokens, {len(RELATIONS)} relations"


def main() -> None:
    """Run one step, and print a summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("what", choices=("read", "generate", "split", "binarise"))
    add("--version", type=int, choices=[VERSION], help="version of the generator")
    add("--files", help="checksum of the input; data-prep repeats the step if it changes")
    add("--draws", type=int)
    add("--seed", type=int)
    add("--train-operators", type=int)
    add("places", nargs="+", type=Path, help="input folder (generate has none), output folder")
    args = parser.parse_args()
    cut = {"seed": args.seed, "train_operators": args.train_operators, "parts": PARTS}
    if args.what == "generate":
        print(_write_pairs(args.places[0], generate(args.draws, args.seed)))
    elif args.what == "read":
        print(_write_pairs(args.places[1], _read(args.places[0])))
    else:
        step = {"split": _split, "binarise": _binarise}[args.what]
        source, target = args.places
        print(step(source, target, cut))


if __name__ == "__main__":
    run_cli(main)
