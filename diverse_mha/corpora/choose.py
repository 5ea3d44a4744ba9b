"""Which training pairs are drawn at random, and which are held out for validation."""

import random
from collections.abc import Callable

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.text import Pair, pair_writer, zip_lines


def sample_pairs(sources: Pair, targets: Pair, size: int, seed: int) -> int:
    """Copy ``size`` pairs, drawn without replacement and in their order, to ``targets``.

    Every pair of which neither side is blank is equally likely. This is selection sampling
    (Knuth, The Art of Computer Programming 2, Algorithm S): one pass counts the eligible pairs,
    a second draws, and neither keeps more than a line. With the same text, size and seed the
    result is the same everywhere: only ``random.Random(seed).random()`` is used, whose values
    Python guarantees.

    Args:
        sources: Source and target side to read.
        targets: Source and target side to write.
        size: Number of pairs.
        seed: Seed of the draw.

    Returns:
        The number of pairs read, blank ones included.

    Raises:
        UserError: If there are fewer eligible pairs than ``size``.
    """
    total = eligible = 0
    for source, target in zip_lines(sources):
        total += 1
        eligible += _has_text(source, target)
    if eligible < size:
        raise UserError(
            f"--sample {size:,} is more than there is: {eligible:,} of the {total:,} training "
            f"pairs have text on both sides"
        )
    draw = random.Random(seed).random
    needed, left = size, eligible
    with pair_writer(targets) as write:
        for source, target in zip_lines(sources):
            if not needed:
                break
            if _has_text(source, target):
                if draw() * left < needed:
                    write(source, target)
                    needed -= 1
                left -= 1
    return total


def hold_out(
    sources: Pair, tokens: Pair, rest: Pair, held: Pair, every: int, keep: Callable
) -> int:
    """Copy every n-th pair that passes the length filter to ``held``, all others to ``rest``.

    Args:
        sources: Source and target side to copy from.
        tokens: The same pairs, tokenised.
        rest: Source and target side of what stays.
        held: Source and target side of what is held out.
        every: Take the n-th, 2n-th, ... pair for which ``keep`` is true.
        keep: From a tokenised pair to whether it passes.

    Returns:
        The number of pairs held out.
    """
    passed = 0
    with pair_writer(rest) as write_rest, pair_writer(held) as write_held:
        for pair, tokenised in zip(zip_lines(sources), zip_lines(tokens), strict=True):
            passes = keep(*tokenised)
            passed += passes
            write = write_held if passes and passed % every == 0 else write_rest
            write(*pair)
    return passed // every


def _has_text(source: str, target: str) -> bool:
    return bool(source.strip()) and bool(target.strip())
