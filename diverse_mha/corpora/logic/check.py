"""Compare the relation computed here with the one published.

Reads every published file of a folder, decides the relation of every pair over all 64 worlds,
and counts where the two differ, or where a pair lies in the file of another length.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.logic.pairs import LONGEST, Pair, published_files, read_pairs
from diverse_mha.corpora.logic.relations import relation


def complaint(pair: Pair) -> str | None:
    """Say how a pair's relation differs from the computed one; None if it does not."""
    try:
        computed = relation(pair.left, pair.right)
    except ValueError as error:
        return str(error)
    if computed == pair.relation:
        return None
    return f"the file says {pair.relation}, the 64 worlds say {computed}: {pair.line}"


def check_file(path: Path) -> tuple[int, list[str], list[str]]:
    """Check one file, whose name ends in the length of its pairs.

    Returns:
        How many pairs it has, and a message for each whose relation is not the computed one, and
        for each of another length.

    Raises:
        UserError: for a line that is not a pair, or a file without any.
    """
    length = int("".join(c for c in path.name.removesuffix(".gz") if c.isdigit()))
    number, wrong, misplaced = 0, [], []
    for number, pair in read_pairs(path):
        if problem := complaint(pair):
            wrong.append(f"{path}:{number}: {problem}")
        if pair.length != min(length, LONGEST):
            misplaced.append(f"{path}:{number}: a pair of length {pair.length}")
    if not number:
        raise UserError(f"{path} is empty; fetch it again")
    return number, wrong, misplaced


def main(argv: Sequence[str] | None = None) -> int:
    """Check the folder that the command line names; return 1 if anything differs."""
    parser = OneLineParser(
        prog="python -m diverse_mha.corpora.logic.check", description=__doc__.split("\n\n")[1]
    )
    parser.add_argument("folder", type=Path, help="folder with train0.gz to train12.gz")
    total = Counter()
    for path in published_files(parser.parse_args(argv).folder):
        pairs, wrong, misplaced = check_file(path)
        counts = Counter(pairs=pairs, wrong=len(wrong), misplaced=len(misplaced))
        print(f"{path.name}: {_said(counts)}", flush=True)
        total += counts
        for message in (wrong + misplaced)[:5]:
            print(message, file=sys.stderr)
    print(_said(total))
    return 1 if total["wrong"] or total["misplaced"] else 0


def _said(counts: Counter) -> str:
    return (
        f"{counts['pairs']:,} pairs, {counts['wrong']} disagreements, "
        f"{counts['misplaced']} of another length"
    )


if __name__ == "__main__":
    run_cli(main)
