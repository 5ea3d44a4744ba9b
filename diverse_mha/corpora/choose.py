"""Chooses training pairs: by a length filter, at random, or as held-out data.

``python -m diverse_mha.corpora.choose filter|draw|hold-out OPTIONS FILES``. A pair is a line of
the source side and the same line of the target side. Functions take both sides, source first.
"""

import argparse
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.letters import words_and_letters
from diverse_mha.corpora.text import count_lines, read_lines

SIDES = ("source", "target")
Pair = tuple[Path, Path]  # in this order


def read_pairs(sides: Pair) -> Iterator[tuple[str, ...]]:
    """Yield line n of both sides together."""
    return zip(*map(read_lines, sides), strict=True)


def write_pairs(sides: Pair, pairs: Iterable[tuple[str, ...]]) -> int:
    """Write both sides of pairs of lines, and return the number of pairs."""
    count = 0
    with (
        open(sides[0], "w", encoding="utf-8", newline="\n") as source_file,
        open(sides[1], "w", encoding="utf-8", newline="\n") as target_file,
    ):
        for source, target in pairs:
            source_file.write(source + "\n")
            target_file.write(target + "\n")
            count += 1
    return count


def count_words(line: str) -> int:
    """Count words, or tokens, between spaces."""
    return len(line.split())


def dropped_by(
    source: str,
    target: str,
    *,
    min_length: int = 1,
    max_length: int = 250,
    max_ratio: float = 9.0,
    counts: tuple[Callable[[str], int], Callable[[str], int]] = (count_words, count_words),
) -> str:
    """Return the rule of Moses' clean-corpus-n that drops a tokenised pair, or "".

    Both sides need ``min_length`` to ``max_length`` tokens, and neither may be more than
    ``max_ratio`` times as long as the other. ``counts`` has a function for each side.
    """
    lengths = counts[0](source), counts[1](target)
    shorter, longer = min(lengths), max(lengths)
    if shorter < min_length:
        return "empty" if shorter == 0 else f"shorter than {min_length}"
    if longer > max_length:
        return f"longer than {max_length}"
    return "" if longer <= max_ratio * shorter else f"with a ratio above {max_ratio:g}"


def filter_pairs(sources: Pair, targets: Pair, rule: Callable[[str, str], str]) -> str:
    """Copy the pairs that no rule drops; return a message with the counts."""
    found: Counter[str] = Counter()

    def kept(pair: tuple[str, ...]) -> bool:
        found[name := rule(*pair)] += 1
        return not name

    write_pairs(targets, filter(kept, read_pairs(sources)))
    rules = ", ".join(f"{count:,} {name}" for name, count in found.most_common() if name)
    if not found[""]:
        raise UserError(
            f"no pair of {sources[0]} and {sources[1]} passes the length filter: {rules}; "
            "see --max-length and --max-ratio"
        )
    dropped = f"; dropped: {rules}" if rules else ""
    return f"{found['']:,} of {found.total():,} train pairs kept{dropped}"


def sample_pairs(sources: Pair, targets: Pair, size: int, seed: int) -> int:
    """Copy ``size`` pairs, drawn without replacement, in their order; return the number of all.

    Every pair with text on both sides is equally likely. This is selection sampling (Knuth, The Art
    of Computer Programming 2, Algorithm S) with ``random.Random(seed).random()``, whose values
    Python guarantees.
    """
    total, eligible = count_lines(sources[0]), sum(1 for _ in _with_text(sources))
    if eligible < size:
        raise UserError(
            f"--sample {size:,} is more than there is: {eligible:,} of the {total:,} training "
            f"pairs have text on both sides"
        )
    write_pairs(targets, _drawn(_with_text(sources), eligible, size, seed))
    return total


def _with_text(sides: Pair) -> Iterator[tuple[str, ...]]:
    return (pair for pair in read_pairs(sides) if all(map(str.strip, pair)))


def _drawn(pairs: Iterable, eligible: int, needed: int, seed: int) -> Iterator[tuple[str, ...]]:
    draw = random.Random(seed).random
    for left, pair in zip(range(eligible, 0, -1), pairs, strict=True):
        if draw() * left < needed:
            yield pair
            needed -= 1


def hold_out(
    sources: Pair, tokens: Pair, rest: Pair, held: Pair, every: int, rule: Callable[[str, str], str]
) -> int:
    """Copy every n-th pair that no rule drops to ``held``, all others to ``rest``.

    The rule sees ``tokens``, the same pairs tokenised.

    Returns:
        The number of pairs held out.
    """
    passing = [number for number, pair in enumerate(read_pairs(tokens)) if not rule(*pair)]
    chosen = set(passing[every - 1 :: every])
    if not chosen:
        raise UserError(
            f"valid would be empty: of the pairs that pass the length filter it gets one in "
            f"{every}, and only {len(passing)} do; give a longer text"
        )
    for targets, wanted in ((rest, False), (held, True)):
        pairs = enumerate(read_pairs(sources))
        write_pairs(targets, (pair for n, pair in pairs if (n in chosen) is wanted))
    return len(chosen)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("what", choices=("filter", "draw", "hold-out"))
    add("--max-length", type=int, default=250, help="longest side to keep, in tokens")
    add("--max-ratio", type=float, default=9.0, help="of the longer side to the shorter")
    add("--count-letters", default="", help="sides, of source,target, counted in letters")
    add("--sample", type=int, help="pairs to draw")
    add("--sample-seed", type=int, default=1)
    add("--every", type=int, help="hold out every n-th pair that passes the filter")
    add("files", nargs="+", type=Path, help="both sides of what is read, then of what is written")
    args = parser.parse_args()
    limits = {"max_length": args.max_length, "max_ratio": args.max_ratio}
    pairs = list(zip(args.files[::2], args.files[1::2], strict=True))
    if args.what == "filter":
        letters = args.count_letters.split(",")
        counts = [words_and_letters if side in letters else count_words for side in SIDES]
        print(filter_pairs(*pairs, functools.partial(dropped_by, **limits, counts=counts)))
    elif args.what == "draw":
        print(sample_pairs(*pairs, args.sample, args.sample_seed))
    else:
        hold_out(*pairs, args.every, functools.partial(dropped_by, **limits))


if __name__ == "__main__":
    run_cli(main)
