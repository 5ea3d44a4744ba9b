"""The tables and figures of the papers, a module a paper, and of our own study."""

from dataclasses import replace

from diverse_mha.common.errors import OptionError, UserError
from diverse_mha.common.options import split_list
from experiments.corpora import CORPORA
from experiments.experiments import TESTED, Figure, Item, Row, Table
from experiments.measures import MEASURES
from experiments.papers import li2018, li2021, study, yun2021, zheng2021

PAPERS: dict[str, dict[str, Item]] = {
    paper: {item.name: replace(item, paper=paper) for item in module.ITEMS}
    for module in (li2018, li2021, yun2021, zheng2021, study)
    for paper in (module.__name__.rpartition(".")[2],)
}


def add_table(table: Table) -> None:
    """Add a table of one's own, under the key it gives as its paper.

    Raises:
        OptionError: if there is one of that name, or it names what is not there.
    """
    name = f"{table.paper} {table.name}"
    items = PAPERS.setdefault(table.paper, {})
    if table.name in items:
        raise OptionError(f"{name} is there already; give another name")
    cells = [cell for row in table.rows for cell in row.cells if cell is not None]
    corpora = [cell.experiment.corpus for cell in cells if cell.experiment is not None]
    rows = [row.name for row in table.rows]
    for what, given, known in (
        ("corpus", corpora, CORPORA),
        ("measure", [cell.measure for cell in cells], MEASURES),
        ("baseline", [table.baseline] if table.baseline or table.tested else [], rows),
        ("score to test by,", [table.tested] if table.tested else [], TESTED),
    ):
        for word in given:
            if word not in known:
                raise OptionError(f"{name}: no {what} {word!r}; choose from {', '.join(known)}")
    items[table.name] = table


def items_of(paper: str) -> dict[str, Item]:
    """Return the tables and figures of a paper by their names.

    Raises:
        UserError: for an unknown paper.
    """
    if paper not in PAPERS:
        raise UserError(f"{paper}: no such paper; choose from {', '.join(PAPERS)}")
    return PAPERS[paper]


def find(paper: str, name: str) -> Item:
    """Return a table or figure; ``table-1``, ``table1`` and ``1`` name the same table.

    Raises:
        UserError: for an unknown paper, table or figure.
    """
    known = items_of(paper)
    wanted = name.lower().replace("_", "-").replace(" ", "-")
    wanted = wanted.replace("fig.", "figure").replace("fig-", "figure-")
    for spelled in (wanted, f"table-{wanted}"):
        for item in known.values():
            if spelled in (item.name, item.name.replace("-", "")):
                return item
    raise UserError(f"{name}: {paper} has no such table or figure; choose from {', '.join(known)}")


def choose_rows(item: Item, names: str | None) -> tuple[Row, ...]:
    """Return the rows of a table that a comma list names, in its order; None: all.

    Raises:
        UserError: for a name that is no row.
    """
    if names is None:
        return item.rows
    if isinstance(item, Figure):
        raise UserError(f"--rows {names}: {item.name} is a figure and has no rows")
    wanted = split_list(names.lower())
    known = {row.name.lower() for row in item.rows}
    for name in wanted:
        if name not in known:
            raise UserError(
                f"--rows {names}: {item.paper} {item.name} has no row {name!r}; choose from "
                f"{', '.join(row.name for row in item.rows)}"
            )
    return tuple(row for row in item.rows if row.name.lower() in wanted)
