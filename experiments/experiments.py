"""Experiments, cells, rows and tables of the papers."""

from dataclasses import dataclass, field, replace

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
        measure: a name of ``MEASURES``.
        paper: the paper's value, if it gives one.
        against: the second training of a measure that compares two.
    """

    experiment: Experiment | None
    measure: str
    paper: float | None = None
    against: Experiment | None = None


@dataclass(frozen=True)
class Row:
    """One row: name on the command line, label in the paper, cells."""

    name: str
    label: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of a paper.

    Attributes:
        paper: name of the paper's file in ``tables/``, such as ``li2018``.
        name: name on the command line.
        title: what it shows.
        columns: a heading a cell.
        rows: the rows, the baseline first.
        baseline: name of the row to test against.
        tested: the score of ``TESTED`` to test against the baseline, if any.
        scales: scales at which it can be run.
        settings: settings of all its experiments, by scale.
        notes: what a reader needs to compare the numbers.
    """

    paper: str = ""
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    baseline: str | None = None
    tested: str | None = None
    scales: tuple[str, ...] = SCALES
    settings: dict[str, dict] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
