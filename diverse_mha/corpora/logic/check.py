"""Compare the relation computed here with the one published.

Reads every published file of a folder, decides the relation of every pair over all 64 worlds,
and counts where the two differ, or where a pair lies in the file of another length.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.logic.pairs import LONGEST, Pair, published_files, read_pairs
from diverse_mha.corpora.logic.relations import relation


class Checked(NamedTuple):
    """What was found in one file.

    Attributes:
        path: the file.
        pairs: how many pairs it has.
        wrong: the lines whose relation is not the computed one, as messages.
        misplaced: the lines whose pair has another length, as messages.
    """

    path: Path
    pairs: int
    wrong: list[str]
    misplaced: list[str]


def complaint(pair: Pair) -> str | None:
    """Say how a pair's relation differs from the computed one; None if it does not."""
    try:
        computed = relation(pair.left, pair.right)
    except ValueError as error:
        return str(error)
    if computed == pair.relation:
        return None
    return f"the file says {pair.relation}, the 64 worlds say {computed}: {pair.line}"


def check_file(path: Path) -> Checked:
    """Check one file, whose name ends in the length of its pairs.

    Raises:
        UserError: for a line that is not a pair.
    """
    length = int("".join(c for c in path.name.removesuffix(".gz") if c.isdigit()))
    checked = Checked(path, 0, [], [])
    count = 0
    for number, pair in read_pairs(path):
        count += 1
        problem = complaint(pair)
        if problem:
            checked.wrong.append(f"{path}:{number}: {problem}")
        if pair.length != min(length, LONGEST):
            checked.misplaced.append(f"{path}:{number}: a pair of length {pair.length}")
    return checked._replace(pairs=count)


def main(argv: Sequence[str] | None = None) -> int:
    """Check the folder that the command line names; return 1 if anything differs."""
    parser = OneLineParser(
        prog="python -m diverse_mha.corpora.logic.check", description=__doc__.split("\n\n")[1]
    )
    parser.add_argument("folder", type=Path, help="folder with train0.gz to train12.gz")
    folder = parser.parse_args(argv).folder
    total = wrong = misplaced = 0
    for path in published_files(folder):
        checked = check_file(path)
        if not checked.pairs:
            raise UserError(f"{path} is empty; fetch it again")
        print(
            f"{path.name}: {checked.pairs:,} pairs, {len(checked.wrong)} disagreements, "
            f"{len(checked.misplaced)} of another length",
            flush=True,
        )
        for message in (checked.wrong + checked.misplaced)[:5]:
            print(message, file=sys.stderr)
        total += checked.pairs
        wrong += len(checked.wrong)
        misplaced += len(checked.misplaced)
    print(f"{total:,} pairs, {wrong} disagreements, {misplaced} of another length")
    return 1 if wrong or misplaced else 0


if __name__ == "__main__":
    run_cli(main)
