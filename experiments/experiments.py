"""What the papers' tables are made of: experiments, cells, rows, tables and figures."""

from dataclasses import dataclass, field, replace

from diverse_mha.common.errors import OptionError

SCALES = ("smoke", "small", "paper")
#: Scores that a table's rows can be tested by.
TESTED = ("BLEU", "chrF", "perplexity", "accuracy")


@dataclass(frozen=True)
class Experiment:
    """One training of a paper, in the paper's own terms.

    Attributes:
        corpus: A name of ``experiments.scales.CORPORA``.
        task: Which of the probing tasks, for that corpus.
        method: A file of ``configs/method/``.
        size: A file of ``configs/size/`` or, for a language model or classifier, ``base``.
        width: Model width, if it is not the size's.
        heads: Number of heads, if it is not the size's.
        settings: Further settings of fairseq, such as ``criterion.disagreement_on``.
        reverse: Whether the corpus is translated in the other direction.
    """

    corpus: str
    method: str = "baseline"
    size: str = "base"
    width: int | None = None
    heads: int | None = None
    settings: dict[str, object] = field(default_factory=dict, hash=False)
    reverse: bool = False
    task: str = ""

    def but(self, settings: dict | None = None, **changes) -> "Experiment":
        """Return the same experiment with some choices changed and some settings added."""
        merged = self.settings | (settings or {})
        return replace(self, settings=dict(sorted(merged.items())), **changes)


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        experiment: The training it is about; None for what the paper quotes from elsewhere.
        measure: What is read off the result, a name of ``MEASURES``; None for the whole.
        paper: The paper's value, or None where it gives none.
        against: The second training, for a measure that compares two.
    """

    experiment: Experiment | None
    measure: str | None
    paper: float | None = None
    against: Experiment | None = None


@dataclass(frozen=True)
class Row:
    """One row: its name on the command line, its label in the paper, and its cells."""

    name: str
    label: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One table or figure of a paper.

    Attributes:
        paper: The paper's key, such as ``li2018``: the name of its file in ``tables/``.
        name: Its name on the command line.
        title: What it shows.
        scales: The scales at which it can be run.
        settings: By scale, settings of all its experiments there.
        notes: What a reader must know to compare the numbers.
    """

    paper: str = ""
    name: str
    title: str
    scales: tuple[str, ...] = SCALES
    settings: dict[str, dict] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """What stands over it."""
        return f"{self.paper}, {self.name}: {self.title}"


@dataclass(frozen=True, kw_only=True)
class Table(Item):
    """One table.

    Attributes:
        columns: A heading a cell.
        rows: The rows, the baseline first where there is one.
        baseline: The row that speeds are relative to, or None.
        tested: The score whose difference to the baseline row is tested, as
            :mod:`diverse_mha.evaluation.comparison` names it, which takes a baseline; None: no
            test.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    baseline: str | None = None
    tested: str | None = None

    def __post_init__(self):
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise OptionError(
                    f"{self.paper} {self.name}: row {row.name!r} has {len(row.cells)} cells for "
                    f"{len(self.columns)} columns; give one for each, None where there is none"
                )


@dataclass(frozen=True, kw_only=True)
class Figure(Item):
    """One figure.

    Attributes:
        measure: What it shows, a name of ``experiments.measures``; None: the heads' mean outputs.
        curves: The trainings it shows, by their label.
        against: The training that the curves are compared with, if any.
        panels: Labels of the curves that share a panel; empty: all in one.
    """

    measure: str | None
    curves: tuple[tuple[str, Experiment], ...]
    against: Experiment | None = None
    panels: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row a curve, with the cell that the curve is drawn from."""
        return tuple(
            Row(label, label, (Cell(experiment, self.measure, against=self.against),))
            for label, experiment in self.curves
        )
