"""Hash of a dictionary: tells a model's vocabulary from another one of the same size.

Training writes it into checkpoints (``fairseq_fixes/dictionaries.py``), data-prep into
``corpus.json``.
"""

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger(__name__)

#: Symbols with which every dictionary of fairseq begins. They are not in its file.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


def sha256_of_symbols(symbols: Iterable[str]) -> str:
    """Return the SHA-256 of symbols in the order of a model's rows, without their counts."""
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def sha256_of_dictionary(path: str | Path) -> str:
    """Return the hash of a file that fairseq-preprocess wrote, without importing fairseq."""
    with open(path, encoding="utf-8") as file:
        words = [line.rstrip().rpartition(" ")[0] for line in file]
    return sha256_of_symbols([*SPECIAL, *words])


def dictionaries_of(data: Path, *files: str) -> dict[str, str]:
    """Return file -> hash of a data folder's dictionaries, for ``corpus.json``."""
    return {file: sha256_of_dictionary(data / file) for file in files}


_unchecked: set[str] = set()


def say_unchecked(checkpoint: str, data: str) -> None:
    """Log that nothing tells whether a model was trained with the dictionaries of a data folder.

    Logged once for a folder.
    """
    if data not in _unchecked:
        _unchecked.add(data)
        logger.warning(
            "%s: not checked whether %s has its dictionaries, which checkpoints of stock fairseq "
            "and of earlier versions do not record",
            *(checkpoint, data),
        )
