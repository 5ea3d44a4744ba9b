"""Data folders of a few dozen lines, written without fairseq-preprocess."""

from pathlib import Path

import torch
from fairseq.data import Dictionary, indexed_dataset

WORDS = 20
SIZES = {"train": 40, "valid": 10}


def write_all(folder: Path) -> None:
    """Write ``translation``, ``language_model`` and ``classification`` below a folder."""
    words = _dictionary([f"w{number}" for number in range(WORDS)])
    labels = _dictionary(["x", "y", "z"])
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
        lines = [
            torch.randint(words.nspecial, len(words), (n,), generator=generator) for n in lengths
        ]
        _write(folder / f"translation/{split}.src-tgt.src", lines, words)
        _write(folder / f"translation/{split}.src-tgt.tgt", [x.flip(0) for x in lines], words)
        _write(folder / f"language_model/{split}", lines, words)
        _write(folder / f"classification/input0/{split}", lines, words)
        classes = [labels.nspecial + line[:1] % 3 for line in lines]
        _write(folder / f"classification/label/{split}", classes, labels, end=False)


def _dictionary(names: list[str]) -> Dictionary:
    dictionary = Dictionary()
    for name in names:
        dictionary.add_symbol(name)
    return dictionary


def _write(path: Path, lines: list, dictionary: Dictionary, end: bool = True) -> None:
    builder = indexed_dataset.make_builder(f"{path}.bin", "mmap", len(dictionary))
    for line in lines:
        builder.add_item(torch.cat([line, line.new_tensor([dictionary.eos()])]) if end else line)
    builder.finalize(f"{path}.idx")
