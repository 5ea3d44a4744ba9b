"""Selects sentence pairs: length filter, random sample, held-out set.

``python -m diverse_mha.corpora.choose filter|draw|hold-out OPTIONS FILES``. Line n of the source
file and line n of the target file are a pair. Functions take both sides, source first.
"""

import argparse
import functools
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.corpora.text import read_lines

Pair = tuple[Path, Path]  # source, target
# Letters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer and related
# scripts, Chinese and Japanese.
_UNSPACED = re.compile(
    "[\u0e00-\u0e3e\u0e40-\u0fff\u1000-\u109f\u1780-\u17d3\u17d7\u17dc-\u17ff\u1950-\u19df\u1a20-\u1aad"
    "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def read_pairs(sides: Pair) -> Iterator[tuple[str, ...]]:
    """Yield (source line, target line)."""
    return zip(*map(read_lines, sides), strict=True)


def write_pairs(sides: Pair, pairs: Iterable[tuple[str, ...]]) -> None:
    """Write both sides of the pairs."""
    with (
        open(sides[0], "w", encoding="utf-8", newline="\n") as source_file,
        open(sides[1], "w", encoding="utf-8", newline="\n") as target_file,
    ):
        for source, target in pairs:
            source_file.write(source + "\n")
            target_file.write(target + "\n")


def count_words(line: str) -> int:
    """Count words or tokens, separated by spaces."""
    return len(line.split())


def words_and_letters(line: str) -> int:
    """Count words; in scripts without spaces count letters, without their combining marks."""
    count = 0
    for word in line.split():
        letters = (c for c in _UNSPACED.findall(word) if unicodedata.category(c)[0] != "M")
        count += max(1, sum(1 for _ in letters))
    return count


def dropped_by(
    source: str,
    target: str,
    *,
    max_length: int = 250,
    max_ratio: float = 9.0,
    counts: tuple[Callable[[str], int], Callable[[str], int]] = (count_words, count_words),
) -> str:
    """Return the rule of Moses' clean-corpus-n that drops a tokenised pair, or "".

    Both sides need 1 to ``max_length`` tokens, and neither may be more than ``max_ratio`` times as
    long as the other. ``counts`` holds the functions that count the tokens of source and target.
    """
    shorter, longer = sorted((counts[0](source), counts[1](target)))
    if not shorter:
        return "empty"
    if longer > max_length:
        return f"longer than {max_length}"
    return "" if longer <= max_ratio * shorter else f"with a ratio above {max_ratio:g}"


def filter_pairs(sources: Pair, targets: Pair, rule: Callable[[str, str], str]) -> str:
    """Copy the pairs that pass the filter; return a message with the counts.

    ``rule`` is the filter. It returns "" for a pair to keep, or the reason to drop it.
    """
    counts: Counter[str] = Counter()

    def passes(pair: tuple[str, ...]) -> bool:
        counts[name := rule(*pair)] += 1
        return not name

    write_pairs(targets, filter(passes, read_pairs(sources)))
    rules = ", ".join(f"{count:,} {name}" for name, count in counts.most_common() if name)
    if not counts[""]:
        raise UserError(
            f"no pair of {sources[0]} and {sources[1]} passes the length filter: {rules}; "
            "change --max-length or --max-ratio"
        )
    dropped = f"; dropped: {rules}" if rules else ""
    return f"{counts['']:,} of {counts.total():,} train pairs kept{dropped}"


def sample_pairs(sources: Pair, targets: Pair, size: int, seed: int) -> int:
    """Copy ``size`` random pairs in the order of the text; return the total number of pairs.

    Every pair with text on both sides is equally likely (without replacement). The algorithm is
    selection sampling (Knuth, The Art of Computer Programming 2, Algorithm S) with
    ``random.Random(seed).random()``, whose values Python guarantees.
    """
    total = eligible = 0
    for pair in read_pairs(sources):
        total += 1
        eligible += _filled(pair)
    if eligible < size:
        raise UserError(
            f"--sample {size:,}: only {eligible:,} of the {total:,} training pairs have text on "
            "both sides; give a smaller number"
        )
    draw = random.Random(seed).random

    def drawn() -> Iterator[tuple[str, ...]]:
        left, needed = eligible, size
        for pair in filter(_filled, read_pairs(sources)):
            if draw() * left < needed:
                needed -= 1
                yield pair
            left -= 1

    write_pairs(targets, drawn())
    return total


def _filled(pair: tuple[str, ...]) -> bool:
    return all(map(str.strip, pair))


def hold_out(
    sources: Pair, tokens: Pair, rest: Pair, held: Pair, every: int, rule: Callable[[str, str], str]
) -> int:
    """Copy every n-th pair that passes the filter to ``held``, and all others to ``rest``.

    n is ``every``. The filter, ``rule``, is applied to ``tokens``, the tokenised pairs.

    Returns:
        The number of held-out pairs.
    """
    passing = [number for number, pair in enumerate(read_pairs(tokens)) if not rule(*pair)]
    chosen = set(passing[every - 1 :: every])
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
    add(
        "--max-ratio",
        type=float,
        default=9.0,
        help="largest ratio of the longer to the shorter side",
    )
    add(
        "--count-letters",
        default="",
        help="sides whose length is counted in letters: source, target, or source,target",
    )
    add("--sample", type=int, help="number of pairs to draw")
    add("--sample-seed", type=int, default=1)
    add("--every", type=int, help="hold out every n-th pair that passes the filter")
    add(
        "files",
        nargs="+",
        type=Path,
        help="source and target files of each input, then of each output",
    )
    args = parser.parse_args()
    pairs = list(zip(args.files[::2], args.files[1::2], strict=True))
    if args.what == "draw":
        sources, targets = pairs
        print(sample_pairs(sources, targets, args.sample, args.sample_seed))
        return
    letters = args.count_letters.split(",")
    counts = [
        words_and_letters if side in letters else count_words for side in ("source", "target")
    ]
    limits = {"max_length": args.max_length, "max_ratio": args.max_ratio}
    rule = functools.partial(dropped_by, **limits, counts=counts)
    if args.what == "filter":
        sources, targets = pairs
        print(filter_pairs(sources, targets, rule))
    else:
        sources, tokens, rest, held = pairs
        hold_out(sources, tokens, rest, held, args.every, rule)


if __name__ == "__main__":
    run_cli(main)
