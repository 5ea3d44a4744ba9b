"""fairseq's binarised format: by fairseq-preprocess, and for sentences with labels.

The layout of the latter, one folder a field, is that of fairseq's ``sentence_prediction``:
``input0/`` (and ``input1/`` for pairs) and ``label/``, each with ``dict.txt`` and a ``SPLIT.bin``
and ``SPLIT.idx`` for every split. More fields, such as the ``length`` of logical pairs, lie in
folders of their own in the same way.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # every dictionary of fairseq's has them


def write_dictionary(path: Path, counts: Mapping[str, int], *, ordered: bool = False) -> None:
    """Write the words of a field as fairseq's ``dict.txt``.

    Args:
        path: the file.
        counts: each word with its count.
        ordered: keep the order of ``counts``; default: most frequent first, then by spelling.
    """
    words = list(counts) if ordered else sorted(counts, key=lambda word: (-counts[word], word))
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{word} {counts[word]}\n" for word in words)
    path.write_text(lines, encoding="utf-8")


def count_words(lines: Iterable[str], minimum: int = 1) -> Counter:
    """Count the words of lines, without fairseq's special ones and those rarer than ``minimum``."""
    counts = Counter(word for line in lines for word in line.split() if word not in _SPECIAL)
    return Counter({word: count for word, count in counts.items() if count >= minimum})


def binarise(folder: Path, split: str, lines: Sequence[str], *, end: bool = True) -> None:
    """Write one split of a field beside its ``dict.txt``, which must be there.

    Args:
        folder: folder of the field.
        split: name of the split.
        lines: the field of every example, words separated by white space.
        end: put the end mark after each, as after sentences; labels have none.
    """
    from fairseq.data import Dictionary, indexed_dataset

    dictionary = Dictionary.load(str(folder / "dict.txt"))
    prefix = folder / split
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(
            dictionary.encode_line(line, add_if_not_exist=False, append_eos=end).long()
        )
    builder.finalize(f"{prefix}.idx")


def preprocess(
    prefixes: Mapping[str, Path], folder: Path, workers: int, options: Sequence[str]
) -> None:
    """Run fairseq-preprocess.

    Args:
        prefixes: for each split, what the names of its files begin with.
        folder: where the data go.
        workers: number of processes.
        options: further ones.

    Raises:
        UserError: if it fails, with its last line.
    """
    command = [sys.executable, "-m", "fairseq_cli.preprocess", *options]
    for split, prefix in prefixes.items():
        command += [f"--{split}pref", str(prefix)]
    command += ["--destdir", str(folder), "--workers", str(workers)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # the last line is to be the error
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment
    )
    if result.returncode != 0:
        lines = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()
        raise UserError(f"fairseq-preprocess failed (exit code {result.returncode}): {lines[-1]}")
    # Its log repeats every option and names the temporary folder; nothing reads it.
    (folder / "preprocess.log").unlink(missing_ok=True)
