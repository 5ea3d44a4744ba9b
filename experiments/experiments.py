"""Experiments, cells, rows, tables and figures of the papers."""

from dataclasses import dataclass, field, replace

from diverse_mha.common.errors import OptionError

SCALES = ("smoke", "small", "paper")
#: Scores by which rows can be tested.
TESTED = ("BLEU", "chrF", "perplexity", "accuracy")


@dataclass(frozen=True)
class Experiment:
    """One training of a paper, in the paper's terms.

    Attributes:
        corpus: a name of ``experiments.scales.CORPORA``.
        task: the probing task, for that corpus.
        method: a file of ``configs/method/``.
        size: a file of ``configs/size/``; ``base`` for a language model or classifier.
        width: model width; None for the size's.
        heads: number of heads; None for the size's.
        settings: further settings of fairseq, such as ``criterion.disagreement_on``.
        reverse: True to translate in the other direction.
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
        """Return the experiment with changed choices and further settings."""
        merged = self.settings | (settings or {})
        return replace(self, settings=dict(sorted(merged.items())), **changes)


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        experiment: the training; None for a number that the paper quotes.
        measure: a name of ``MEASURES``; None for a curve of a figure.
        paper: the paper's value, if it gives one.
        against: the second training of a measure that compares two.
    """

    experiment: Experiment | None
    measure: str | None
    paper: float | None = None
    against: Experiment | None = None


@dataclass(frozen=True)
class Row:
    """One row: name on the command line, label in the paper, cells."""

    name: str
    label: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One table or figure of a paper.

    Attributes:
        paper: name of the paper's file in ``tables/``, such as ``li2018``.
        name: name on the command line.
        title: what it shows.
        scales: scales at which it can be run.
        settings: settings of all its experiments, by scale.
        notes: what a reader needs to compare the numbers.
    """

    paper: str = ""
    name: str
    title: str
    scales: tuple[str, ...] = SCALES
    settings: dict[str, dict] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Its title with paper and name."""
        return f"{self.paper}, {self.name}: {self.title}"


@dataclass(frozen=True, kw_only=True)
class Table(Item):
    """One table.

    Attributes:
        columns: a heading a cell.
        rows: the rows, the baseline first.
        baseline: name of the row to test against.
        tested: the score of ``TESTED`` to test against the baseline, if any.
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
        measure: a name of ``experiments.figures.SELECTIONS``.
        curves: the trainings, by label.
        against: the training to compare them with, if any.
        panels: title of each panel of SVCCA and the labels of its curves.
    """

    measure: str
    curves: tuple[tuple[str, Experiment], ...]
    against: Experiment | None = None
    panels: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return a row with one cell for each curve."""
        return tuple(
            Row(label, label, (Cell(experiment, None, against=self.against),))
            for label, experiment in self.curves
        )
