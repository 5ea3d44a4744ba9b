"""Tables of the papers and of our study, read from ``tables/*.toml``.

A table, column or row may set the fields of an :class:`Experiment`, and settings by dotted key.
Rows override columns, and columns override their table. A column without settings is written as a
pair of heading and measure. ``values`` are the paper's numbers in the order of the columns; later
columns may lack one, and ``"-"`` is an empty cell. A ``quoted`` row is not trained, and
``mean_of`` names the rows that a row averages. ``like`` inherits from an earlier table. With
``without`` the rows are inherited too, except the named ones; a row of the same name replaces an
inherited one.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import split_list
from experiments.measures import MEASURES
from experiments.scales import CORPORA

SCALES = ("smoke", "small", "paper")
TESTED = ("BLEU", "chrF", "perplexity", "accuracy")  # scores by which rows can be tested


@dataclass(frozen=True)
class Experiment:
    """One training of a paper, in the paper's terms."""

    corpus: str  # a name of ``CORPORA``
    method: str = "baseline"  # a file of ``configs/method/``
    #: A file of ``configs/size/`` or a key of ``Recipe.sizes``; ``base`` for language models,
    #: classifiers.
    size: str = "base"
    width: int | None = None  # model width; None for the size's
    heads: int | None = None  # number of heads; None for the size's
    #: Further settings of fairseq, such as ``criterion.disagreement_on``.
    settings: dict[str, object] = field(default_factory=dict, hash=False)
    reverse: bool = False  # translate in the other direction
    task: str = ""  # name of the task, for the corpus ``probing``

    def but(self, settings: dict | None = None, **changes) -> "Experiment":
        """Return the experiment with changed choices and further settings."""
        merged = self.settings | (settings or {})
        return replace(self, settings=dict(sorted(merged.items())), **changes)


@dataclass(frozen=True)
class Cell:
    """One number of a table."""

    experiment: Experiment | None  # the training; None for a number that the paper quotes
    measure: str  # a name of ``MEASURES``
    paper: float | None = None  # the paper's value, if it gives one
    against: Experiment | None = None  # the second training of a measure that compares two


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    name: str  # name on the command line
    label: str  # name in the paper
    cells: tuple[Cell | None, ...]
    mean_of: tuple[str, ...] = ()  # names of rows; this row is their mean and is not trained


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of a paper."""

    paper: str = ""  # the file in ``tables/``, such as ``li2018``
    name: str  # name on the command line
    title: str
    columns: tuple[str, ...]  # headings, one per cell of a row
    rows: tuple[Row, ...]
    baseline: str | None = None  # name of the row to test against
    tested: str | None = None  # the score of ``TESTED`` to test against the baseline, if any
    scales: tuple[str, ...] = SCALES
    settings: dict[str, dict] = field(default_factory=dict)  # scale -> settings of all experiments
    notes: tuple[str, ...] = ()  # notes for comparing the numbers
    draw: str = ""  # kind of a figure, a key of ``experiments.figures.KINDS``
    panels: dict[str, list[str]] = field(default_factory=dict)  # of a figure: title -> row names
    axis: str = ""  # label of a figure's vertical axis

    def only(self, names: str | None) -> "Table":
        """Return the table with the named rows and the rows that they average; None: all rows.

        ``names`` are separated by commas.
        """
        if names is None:
            return self
        wanted = {name.lower() for name in split_list(names)}
        known = {row.name.lower(): row for row in self.rows}
        for name in sorted(wanted - known.keys()):
            raise UserError(
                f"--rows {names}: {self.paper} {self.name} has no row {name!r}; choose from "
                f"{', '.join(row.name for row in self.rows)}"
            )
        for name in [*wanted]:
            wanted.update(part.lower() for part in known[name].mean_of)
        return replace(self, rows=tuple(known[name] for name in known if name in wanted))


_OF_EXPERIMENT = {f.name for f in fields(Experiment)} - {"settings"}
#: Fields of a table that are taken from the TOML file unchanged.
_OWN = ("name", "title", "settings", "baseline", "tested", "draw", "panels", "axis")
_OTHERS = "scales notes columns rows like without against measure head label values".split()
_OTHERS += ["quoted", "mean_of"]
PAPERS: dict[str, dict[str, Table]] = {}


def read_tables(paper: str, text: str) -> Iterator[Table]:
    """Read the tables of a TOML text."""
    content = tomllib.loads(text)
    known: dict[str, dict] = {}
    for given in content.get("table", []):
        table = known[given["name"]] = (
            _like(known[given["like"]], given) if "like" in given else given
        )
        rows = tuple(_row(row, table) for row in table["rows"])
        columns = tuple(column["head"] for column in map(_column, table["columns"]))
        own = {name: table[name] for name in _OWN if name in table}
        own |= {name: tuple(table[name]) for name in ("scales", "notes") if name in table}
        yield Table(paper=paper, columns=columns, rows=rows, **own)


def _like(other: Mapping, given: Mapping) -> dict:
    """Return the table ``given``, completed with the keys of ``other``."""
    rows = given["rows"]
    if "without" in given:
        own = {row["name"]: row for row in rows}
        there = (row for row in other["rows"] if row["name"] not in given["without"])
        rows = [own.pop(row["name"], row) for row in there] + [*own.values()]
    return {**other, **given, "rows": rows}


def _column(given: Mapping | list[str]) -> Mapping:
    return given if isinstance(given, dict) else dict(zip(("head", "measure"), given, strict=True))


def _row(row: Mapping, table: Mapping) -> Row:
    columns = [_column(column) for column in table["columns"]]
    values = [*row.get("values", ()), *[None] * len(columns)]
    cells = []
    for column, value in zip(columns, values, strict=False):
        given = row.get("quoted") or row.get("mean_of")
        trained = None if given else _experiment(table, column, row)
        against = table.get("against")
        against = against and _experiment(table, column, row, against)
        measure = row.get("measure") or column["measure"]
        cells.append(None if value == "-" else Cell(trained, measure, value, against))
    return Row(row["name"], row["label"], tuple(cells), tuple(row.get("mean_of", ())))


def _experiment(*parts: Mapping) -> Experiment:
    """Return the experiment that a table, a column and a row describe."""
    merged = {key: value for part in parts for key, value in part.items()}
    settings = {key: merged[key] for key in sorted(merged) if "." in key}
    for key in merged.keys() - settings.keys() - _OF_EXPERIMENT - {*_OWN, *_OTHERS}:
        raise UserError(
            f"{key}: unknown key of a table; choose from {', '.join(sorted(_OF_EXPERIMENT))}"
        )
    return Experiment(**{k: merged[k] for k in merged.keys() & _OF_EXPERIMENT}, settings=settings)


def add_tables(paper: str, source: Path | str) -> None:
    """Add the tables of a TOML file or text to a paper."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    try:
        for item in read_tables(paper, text):
            add_table(item)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{paper}: not readable as TOML: {error}; correct it") from None
    except KeyError as error:
        raise UserError(f"{paper}: a table, row or column has no {error}; add it") from None


def add_table(item: Table) -> None:
    """Add a table to its paper."""
    name, items = f"{item.paper} {item.name}", PAPERS.setdefault(item.paper, {})
    if item.name in items:
        raise UserError(f"{name} exists already; give another name")
    cells = [cell for row in item.rows for cell in row.cells if cell is not None]
    corpora = [cell.experiment.corpus for cell in cells if cell.experiment is not None]
    rows = [row.name for row in item.rows]
    baseline, tested = item.baseline, item.tested
    for what, given, known in (
        ("corpus", corpora, CORPORA),
        ("measure", [cell.measure for cell in cells], MEASURES),
        ("baseline", [baseline] if baseline or tested else [], rows),
        ("tested score", [tested] if tested else [], TESTED),
    ):
        for word in given:
            if word not in known:
                raise UserError(f"{name}: unknown {what} {word!r}; choose from {', '.join(known)}")
    items[item.name] = item


def items_of(paper: str) -> dict[str, Table]:
    """Return the tables of a paper by their names."""
    if paper not in PAPERS:
        raise UserError(f"{paper}: no such paper; choose from {', '.join(PAPERS)}")
    return PAPERS[paper]


def find(paper: str, name: str) -> Table:
    """Return a table or figure of a paper; the name ``1`` means ``table-1``."""
    known = items_of(paper)
    item = known.get(name) or known.get(f"table-{name}")
    if item is None and paper == "li2021" and name.removeprefix("table-") in ("1", "2"):
        number = name.removeprefix("table-")
        raise UserError(
            f"{paper} table-{number}: repeats a table of another paper; give li2018 table-{number}"
        )
    if item is None:
        choices = ", ".join(known)
        raise UserError(f"{name}: {paper} has no such table; choose from {choices}")
    return item


for _paper in ("li2018", "li2021", "yun2021", "zheng2021", "study"):
    add_tables(_paper, Path(__file__).parent / "tables" / f"{_paper}.toml")
