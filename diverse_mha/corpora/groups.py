"""Splits a corpus so that no sentence occurs in two splits.

Command: ``python -m diverse_mha.corpora.groups --valid N --test N --languages L1 L2 FILES``.
The files are source (in L1) and target (L2) of the corpus, then of train, valid and test.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.choose import Pair, read_pairs, write_pairs
from diverse_mha.corpora.text import make_tokeniser

LARGEST = 10  # pairs of the largest group that is held out
SEED = 1


def connect(pairs: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """Return groups of pair numbers, connected by a shared source or a shared target sentence.

    The groups are the connected components (union-find), in the order of their first pairs.
    """
    parent = list(range(len(pairs)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    first: dict[tuple[int, str], int] = {}  # side and sentence -> its first pair
    for number, pair in enumerate(pairs):
        for side_and_sentence in enumerate(pair):
            one, other = root(first.setdefault(side_and_sentence, number)), root(number)
            parent[max(one, other)] = min(one, other)
    groups: dict[int, list[int]] = {}
    for number in range(len(pairs)):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def draw_groups(groups: Iterable[list[int]], sizes: Sequence[int]) -> list[set[int]]:
    """Return the pair numbers of each held-out set, at most as many as its size.

    Groups of at most ``LARGEST`` pairs are drawn in random order. Each goes to the first set that
    has room for it.
    """
    draw = random.Random(SEED).random  # Python guarantees its values, but not those of shuffle()
    held: list[set[int]] = [set() for _ in sizes]
    for group in sorted(groups, key=lambda _: draw()):
        if len(group) <= LARGEST:
            for chosen, size in zip(held, sizes, strict=True):
                if len(chosen) + len(group) <= size:
                    chosen.update(group)
                    break
    return held


def hold_out_groups(
    corpus: Pair,
    train: Pair,
    valid: Pair,
    test: Pair,
    *,
    sizes: tuple[int, int],
    languages: tuple[str, str],
) -> str:
    """Split a corpus so that no source or target sentence occurs in two splits.

    Sentences are the same if their tokens are, so that quotation marks do not tell them apart.
    Pairs with an empty side and repeated pairs are dropped. Each split keeps the corpus' order.

    Args:
        corpus: source and target file.
        train: files to write, as those of ``valid`` and ``test``.
        valid: see ``train``.
        test: see ``train``.
        sizes: pairs of ``valid`` and of ``test``.
        languages: source and target language of the tokeniser's rules.

    Returns:
        A message with the numbers of dropped pairs.

    Raises:
        UserError: the corpus is too small for the sizes.
    """
    counts = Counter(read_pairs(corpus))
    pairs = [pair for pair in counts if all(map(str.strip, pair))]  # in the order of the text
    held: list[set[int]] = []
    if len(pairs) > sum(sizes):
        sides = zip(map(make_tokeniser, languages), zip(*pairs, strict=True), strict=True)
        tokens = [map(tokenise, sentences) for tokenise, sentences in sides]
        held = draw_groups(connect([*zip(*tokens, strict=True)]), sizes)
    if tuple(map(len, held)) != sizes:
        raise UserError(
            f"--valid {sizes[0]:,} and --test {sizes[1]:,}: too large for a corpus of "
            f"{len(pairs):,} different pairs; give smaller numbers"
        )
    both = set().union(*held)
    write_pairs(train, (pair for number, pair in enumerate(pairs) if number not in both))
    for split, chosen in zip((valid, test), held, strict=True):
        write_pairs(split, (pairs[number] for number in sorted(chosen)))
    filled = sum(counts[pair] for pair in pairs)
    return f"dropped: {counts.total() - filled:,} empty, {filled - len(pairs):,} repeated"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--valid", type=int, required=True, help="pairs to hold out as valid")
    parser.add_argument("--test", type=int, required=True, help="pairs to hold out as test")
    text = "languages of the tokeniser's rules, such as de en"
    parser.add_argument("--languages", nargs=2, required=True, help=text)
    parser.add_argument("files", nargs=8, type=Path)
    args = parser.parse_args()
    splits = zip(args.files[::2], args.files[1::2], strict=True)
    sizes, languages = (args.valid, args.test), tuple(args.languages)
    print(hold_out_groups(*splits, sizes=sizes, languages=languages))


if __name__ == "__main__":
    run_cli(main)
