"""Writes data folders of a few dozen lines without fairseq-preprocess."""

from pathlib import Path

import torch

from tests.toy import dictionary_of, write_split

WORDS = 20
SIZES = {"train": 40, "valid": 10}


def write_all(folder: Path) -> None:
    """Write ``translation``, ``language_model`` and ``classification`` below a folder."""
    words = dictionary_of([f"w{number}" for number in range(WORDS)])
    labels = dictionary_of(["x", "y", "z"])
    generator = torch.Generator().manual_seed(1)
    for name in ("translation", "language_model", "classification/input0", "classification/label"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for language in ("src", "tgt"):
        words.save(str(folder / f"translation/dict.{language}.txt"))
    words.save(str(folder / "language_model/dict.txt"))
    words.save(str(folder / "classification/input0/dict.txt"))
    labels.save(str(folder / "classification/label/dict.txt"))
    for split, count in SIZES.items():
        lengths = torch.randint(2, 10, (count,), generator=generator).tolist()
        draws = (
            torch.randint(words.nspecial, len(words), (n,), generator=generator) for n in lengths
        )
        lines = [torch.cat([line, line.new_tensor([words.eos()])]) for line in draws]
        for name in ("translation/{}.src-tgt.src", "language_model/{}", "classification/input0/{}"):
            write_split(folder / name.format(split), words, lines)
        turned = [torch.cat([line[:-1].flip(0), line[-1:]]) for line in lines]
        write_split(folder / f"translation/{split}.src-tgt.tgt", words, turned)
        classes = [labels.nspecial + line[:1] % 3 for line in lines]
        write_split(folder / f"classification/label/{split}", labels, classes)
