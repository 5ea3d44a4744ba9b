"""The corpus itself: disjoint train, valid and test files of sentence pairs."""

import argparse
from pathlib import Path

from diverse_mha.common.arguments import add_number
from diverse_mha.common.errors import UserError
from diverse_mha.corpora.demo import lumi, qorun
from diverse_mha.corpora.demo.chance import Chance
from diverse_mha.corpora.demo.lexicon import lexicon
from diverse_mha.corpora.demo.sampling import Sampler
from diverse_mha.corpora.text import write_lines

PAIRS, SEED = 5000, 1
MOST_PAIRS = 1_000_000
MIN_WORDS, MAX_WORDS = 4, 20
VERSION = 1  # raised when the same seed comes to give other sentences
SOURCE, TARGET = "lm", "qo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare ``--pairs`` and ``--seed``."""
    text = "training pairs; valid and test get a twentieth each"
    add_number(parser, "pairs", PAIRS, text, least=20)
    add_number(parser, "seed", SEED, "seed of the sentences", least=0)


def sentence_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return sentence pairs (Lumi, Qorun) of 4 to 20 words a side, no Lumi sentence twice.

    Args:
        count: Number of pairs.
        seed: Decides what is said; a larger count with the same seed only adds pairs.
    """
    sampler = Sampler(lexicon(), Chance(seed))
    pairs = {}
    while len(pairs) < count:
        meaning = sampler.sentence()
        source, target = lumi.sentence(meaning), qorun.sentence(meaning)
        lengths = len(source.split()), len(target.split())
        if MIN_WORDS <= min(lengths) and max(lengths) <= MAX_WORDS:
            pairs.setdefault(source, target)
    return list(pairs.items())


def write_corpus(out: Path, *, pairs: int = PAIRS, seed: int = SEED) -> dict[str, int]:
    """Write train, valid and test as ``SPLIT.lm`` and ``SPLIT.qo``.

    Args:
        out: Folder for the six files; made if need be.
        pairs: Number of training pairs; valid and test get a twentieth of it each.
        seed: Seed of the generator.

    Returns:
        The number of pairs of each split.

    Raises:
        UserError: If the number of pairs is out of range.
    """
    if not 20 <= pairs <= MOST_PAIRS:
        raise UserError(f"--pairs {pairs} is out of range; choose 20 to {MOST_PAIRS:,}")
    counts = {"train": pairs, "valid": pairs // 20, "test": pairs // 20}
    everything = iter(sentence_pairs(sum(counts.values()), seed))
    out.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        sources, targets = zip(*(next(everything) for _ in range(count)), strict=True)
        write_lines(out / f"{split}.{SOURCE}", sources)
        write_lines(out / f"{split}.{TARGET}", targets)
    return counts
