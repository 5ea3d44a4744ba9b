"""Binarises data for sentence classification, in the layout of fairseq's ``sentence_prediction``.

Each field has a folder: ``input0/``, ``input1/`` for pairs, ``label/``, and optional others. Each
folder has ``dict.txt`` and, for each split, ``SPLIT.bin`` and ``SPLIT.idx``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from diverse_mha.common.vocabulary import SPECIAL
from diverse_mha.corpora.text import read_lines, write_lines

Table = Mapping[str, Sequence[str]]  # field -> column
MARKS = frozenset({"<s>", "</s>", "<pad>"})  # fairseq's special tokens, not allowed in text


def count_words(lines: Iterable[str], minimum: int = 1) -> dict[str, int]:
    """Return word -> count, without special tokens, most frequent first, ties alphabetically."""
    counts = Counter(word for line in lines for word in line.split() if word not in SPECIAL)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: count for word, count in ordered if count >= minimum}


def read_columns(folder: Path, fields: Sequence[str]) -> dict[str, Table]:
    """Read the files ``SPLIT.tsv`` of a folder: split -> field -> column."""
    tables = {}
    for path in sorted(folder.glob("*.tsv")):
        rows = (line.split("\t") for line in read_lines(path))
        tables[path.stem] = dict(zip(fields, zip(*rows, strict=True), strict=True))
    return tables


def binarise(
    folder: Path, dictionaries: Mapping[str, Mapping[str, int]], splits: Mapping[str, Table]
) -> None:
    """Write dictionaries (field -> word -> count) and splits (split -> field -> column)."""
    from fairseq.data import Dictionary, indexed_dataset

    for field, counts in dictionaries.items():
        (folder / field).mkdir(parents=True, exist_ok=True)
        path = folder / field / "dict.txt"
        write_lines(path, (f"{word} {count}" for word, count in counts.items()))
        dictionary = Dictionary.load(str(path))
        sentences = field.startswith("input")  # these fields get an end-of-sentence token
        for split, columns in splits.items():
            prefix = folder / field / split
            builder = indexed_dataset.make_builder(
                f"{prefix}.bin", "mmap", vocab_size=len(dictionary)
            )
            for line in columns[field]:
                numbers = dictionary.encode_line(line, add_if_not_exist=False, append_eos=sentences)
                builder.add_item(numbers.long())
            builder.finalize(f"{prefix}.idx")
