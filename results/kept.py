"""Cells of the study's tables that the published runs alone do not give: ``kept.csv``.

Read and written by ``python -m results.tables``. Some cells are of runs that were not published, or
of measures that are not in the archive; ``kept.csv`` is their only source. Others are tests of
BLEU, which need the reference of a test set. These are computed again where the corpus is
prepared, and taken from ``kept.csv`` elsewhere.
"""

import csv
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT
from diverse_mha.common.tables import csv_text

FILE = ROOT / "results" / "kept.csv"
HEAD = ["table", "row", "column", "cell"]


class OfCorpus(str):
    """A cell that was computed with the reference of a test set, and is kept."""


@dataclass
class Kept:
    """Kept cells by table, row and column."""

    cells: dict[tuple[str, str, str], str]
    _used: dict[tuple[str, str, str], str] = field(default_factory=dict, init=False)

    @classmethod
    def read(cls, file: Path) -> "Kept":
        """Read a file."""
        with file.open(encoding="utf-8", newline="") as lines:
            _, *rows = csv.reader(lines)
        return cls({(table, row, column): cell for table, row, column, cell in rows})

    def cell(self, *key: str) -> str:
        """Return a cell by table, row and column; empty if it is not kept."""
        return self.cells.get(key, "")

    def complete(self, table: str, row: str, column: str, cell: str | None) -> str:
        """Return a cell; the kept one for None. A cell of :class:`OfCorpus` is kept from now on."""
        key = (table, row, column)
        if cell is None:
            if key not in self.cells:
                raise UserError(
                    f"{table}: {row}: {column}: is not kept; prepare the corpus, or give --data"
                )
            cell = OfCorpus(self.cells[key])
        if isinstance(cell, OfCorpus):
            self._used[key] = cell
        return str(cell)

    def to_csv(self, tables: Collection[str]) -> str:
        """Return the file: of these tables what :meth:`complete` met, of the others everything."""
        others = {key: cell for key, cell in self.cells.items() if key[0] not in tables}
        lines = [[*key, cell] for key, cell in {**others, **self._used}.items()]
        return csv_text([HEAD, *lines])
