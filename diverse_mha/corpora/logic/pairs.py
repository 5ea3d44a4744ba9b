"""Labelled pairs of formulas and their published files.

One file per length, ``train0`` to ``train12`` (plain or gzip, with or without ``.gz``), has a pair
a line: ``relation TAB left TAB right``. The length is the number of operators of the side with
more of them; the last file has all pairs from 12 up.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.logic.formula import Formula, parse
from diverse_mha.corpora.logic.relations import RELATIONS, relation

LONGEST = 12
_FILE_NAME = re.compile(r"(train|test)(\d+)(\.gz)?")


class Pair(NamedTuple):
    """Two formulas and their relation."""

    relation: str
    left: Formula
    right: Formula

    @property
    def length(self) -> int:
        """Number of operators of the side with more of them, at most 12."""
        return min(LONGEST, max(self.left.operators, self.right.operators))

    @property
    def line(self) -> str:
        """The pair as a line of a published file."""
        return f"{self.relation}\t{self.left.text}\t{self.right.text}"


def parse_pair(line: str) -> Pair:
    """Read a line of a published file; raises ValueError if the relation is wrong."""
    fields = line.split("\t")
    if len(fields) != 3:
        raise ValueError(f"{len(fields)} fields separated by tabs, expected 3: relation, two sides")
    sign, left, right = fields
    if sign not in RELATIONS:
        raise ValueError(f"unknown relation {sign!r}; the relations are {' '.join(RELATIONS)}")
    pair = Pair(sign, parse(left), parse(right))
    found = relation(pair.left, pair.right)
    if found != sign:
        raise ValueError(f"the file says {sign}, the 64 worlds say {found}: {line}")
    return pair


def published_files(folder: Path) -> list[Path]:
    """Return the published files of a folder, by length."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give the one with train0.gz to train12.gz")
    found: dict[tuple[str, int], Path] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE_NAME.fullmatch(path.name)
        if not match:
            continue
        key = match.group(1), int(match.group(2))
        if key in found:
            raise UserError(f"{path}: the same file as {found[key].name}; leave one of them")
        found[key] = path
    missing = [f"train{n}" for n in range(1, LONGEST + 1) if ("train", n) not in found]
    if missing:
        raise UserError(
            f"{folder} lacks {', '.join(missing)} (plain or .gz) of the published files; "
            "add them, or leave out --from to generate the pairs"
        )
    return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0] != "train"))]


def by_length(pairs: Iterable[Pair]) -> dict[int, list[Pair]]:
    """Return lists of pairs by length, 0 to 12, without repeated ones; the order stays."""
    sorted_pairs: dict[int, dict[Pair, None]] = {n: {} for n in range(LONGEST + 1)}
    for pair in pairs:
        sorted_pairs[pair.length].setdefault(pair)
    return {length: list(found) for length, found in sorted_pairs.items()}
