"""Writes stand-ins for every published file that ``--from FOLDER`` reads."""

import gzip
import random
from pathlib import Path

from diverse_mha.corpora.demo import labelled
from diverse_mha.corpora.probing import SPLITS, TASKS
from tests.corpora.miniature import publish

PAIRS = {"train": 200, "valid": 20, "test": 20}
FILES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # file names of Multi30k


def sentences(count: int, seed: int) -> list[list[str]]:
    """Return random sentences of 5 to 12 words from a vocabulary of 60."""
    words = [a + b for a in "bdfgklmnprst" for b in ("a", "en", "i", "o", "u")]
    chance = random.Random(seed)
    return [chance.choices(words, k=chance.randint(5, 12)) for _ in range(count)]


def write(folder: Path) -> None:
    """Write all stand-ins into the folder."""
    publish("iwslt14", folder)
    (folder / "ptb").mkdir()
    for seed, (split, count) in enumerate(PAIRS.items()):
        made = sentences(count, seed)
        for language, lines in (("de", made), ("en", [line[::-1] for line in made])):
            text = "".join(" ".join(line) + " .\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text)
            with gzip.open(folder / f"{FILES[split]}.{language}.gz", "wt") as packed:
                packed.write(text)
        (folder / f"{split}.txt").write_text(text)
        # Adaptive softmax needs more than 5,000 types.
        types = [f"w{number}" for number in range(6000)]
        lines = "".join(" ".join(types[n : n + 20]) + "\n" for n in range(0, 6000, 20))
        (folder / "ptb" / f"{split}.txt").write_text(lines)
    codes = {split: code for code, split in SPLITS.items()}
    for task in TASKS:
        lines = [
            line
            for seed, (split, count) in enumerate(PAIRS.items())
            for line in labelled(codes[split], map(" ".join, sentences(count, seed)))
        ]
        (folder / f"{task}.txt").write_text("\n".join(lines) + "\n")
