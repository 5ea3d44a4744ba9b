"""Steps of a recipe other than training: data preparation, averaging, search and scoring.

The steps are configured in the groups ``generation``, ``eval_lm`` and ``scoring`` of a recipe.
These groups are also saved in checkpoints.
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag
from diverse_mha.common.ranges import COUNT, between

#: Checkpoints of a run: the averaged one, the best one by its validation, and the last one.
AVERAGED, BEST, LAST = "averaged.pt", "checkpoint_best.pt", "checkpoint_last.pt"
GROUPS = ("generation", "eval_lm", "scoring")  # configuration groups that training does not read


class Kind(NamedTuple):
    """How a kind of model is evaluated.

    Attributes:
        task: part of the names of its tasks.
        command: the command that evaluates it.
        results: names of the result files, that of the test set last.
        scores: the scores in a result, the default first.
    """

    task: str
    command: str
    results: tuple[str, ...]
    scores: tuple[str, ...]


KINDS = {
    "translation": Kind(
        "translation", "evaluate", ("test",),
        ("tokenised_bleu", "sacrebleu", "compound_split_bleu"),
    ),
    "language_model": Kind(
        "language_modeling", "evaluate-lm", ("valid", "test"), ("perplexity",)
    ),
    "classifier": Kind("classification", "evaluate-classifier", ("accuracy",), ("accuracy",)),
}  # fmt: skip
_RANGES = {"beam": COUNT, "lenpen": between(-10, 10)}  # legal values, as of ``evaluate``
_KEYS = ("prepare", "average", "average_by", "score", "time")  # keys of the group ``scoring``


@dataclass(frozen=True)
class Pipeline:
    """The steps of a recipe before and after training."""

    kind: str  # a key of ``KINDS``
    prepare: tuple[str, ...] = ()  # a script of ``data-prep/`` and its options; empty: none
    average: int = 0  # number of last checkpoints to average; 0: use the best checkpoint
    average_by: str = "update"  # kind of checkpoints to average, "update" or "epoch"
    score: str = ""  # the score that the paper reports
    beam: int = 5
    lenpen: float = 1.0
    evaluate: tuple[str, ...] = ()  # further options of the evaluation
    validates: bool = True  # False: the training has no best checkpoint

    @property
    def trained(self) -> str:
        """The checkpoint that the steps after the training read."""
        return BEST if self.validates and not self.average else LAST

    @property
    def model(self) -> str:
        """The checkpoint to evaluate."""
        return AVERAGED if self.average else self.trained

    @property
    def options(self) -> tuple[str, ...]:
        """All command-line options of the evaluation."""
        if self.kind != "translation":
            return self.evaluate
        return ("--beam", str(self.beam), "--lenpen", f"{self.lenpen:g}", *self.evaluate)


def read_pipeline(
    settings: Mapping[str, Mapping], name: object = "recipe", defaults: Mapping | None = None
) -> Pipeline:
    """Read the pipeline from the settings of a recipe or checkpoint.

    Args:
        settings: group -> settings.
        name: the file, for messages.
        defaults: fairseq's defaults of the group ``generation``; options with these values are
            left out.
    """
    kind = _kind(settings)
    if kind is None:
        task = _task(settings)
        raise UserError(f"{name}: no evaluation for task {task}; evaluate with fairseq's commands")
    check_scoring(settings, name)
    scoring = _scoring(settings)
    score = scoring.get("score") or KINDS[kind].scores[0]
    search = _search(settings)
    beam, lenpen = Pipeline.beam, Pipeline.lenpen
    words: list[str] = []
    if kind == "translation":
        beam, lenpen = int(_number(search, "beam", name)), _number(search, "lenpen", name)
        words += _options(search, defaults or {})
        words += ["--compound-split"] if score == "compound_split_bleu" else []
    elif kind == "language_model":
        window = (settings.get("eval_lm") or {}).get("context_window") or 0
        words += ["--context-window", str(window)] if window else []
    return Pipeline(
        kind=kind,
        prepare=_words(scoring.get("prepare"), name),
        average=scoring.get("average") or Pipeline.average,
        average_by=scoring.get("average_by") or Pipeline.average_by,
        score=score,
        beam=beam,
        lenpen=lenpen,
        evaluate=tuple(words),
        validates=not (settings.get("dataset") or {}).get("disable_validation"),
    )


def check_scoring(settings: Mapping[str, object], name: object = "recipe") -> None:
    """Raise an error for settings of the steps after training that these would refuse.

    Checked are keys and values of ``scoring``, and beam and length penalty of a translation model.
    """
    scoring, kind = _scoring(settings), _kind(settings)
    scores = KINDS[kind].scores if kind else ()
    for key in sorted(scoring.keys() - {*_KEYS}):
        raise UserError(f"{name}: scoring has no key {key!r}; choose from {', '.join(_KEYS)}")
    for key, known in (("score", scores), ("average_by", ("update", "epoch"))):
        value = scoring.get(key)
        if value and known and value not in known:
            raise UserError(f"{name}: scoring.{key}={value}; choose from {', '.join(known)}")
    average = scoring.get("average") or 0
    if not isinstance(average, int) or average < 0:
        raise UserError(
            f"{name}: scoring.average={average}; give a whole number, or 0 for the best checkpoint"
        )
    search = _search(settings)
    for key in _RANGES if kind == "translation" else ():
        _number(search, key, name)


def _search(settings: Mapping[str, object]) -> dict:
    """Return the group ``generation``."""
    search = settings.get("generation")
    return dict(search) if isinstance(search, Mapping) else {}


def _words(prepare: object, name: object) -> tuple[str, ...]:
    """Return a script of data-prep and its options, given as text or as a list."""
    if isinstance(prepare, list | tuple):
        return tuple(map(str, prepare))
    try:
        return tuple(shlex.split(str(prepare or "")))
    except ValueError as error:
        raise UserError(f"{name}: scoring.prepare={prepare}: {error}; correct it") from None


def _number(search: Mapping, key: str, name: object) -> float:
    """Return the beam or the length penalty, or its default; raise an error for an illegal one."""
    value = search.get(key, getattr(Pipeline, key))
    legal = _RANGES[key]
    try:
        return (legal.parse_int if key == "beam" else legal.parse_float)(str(value))
    except argparse.ArgumentTypeError:
        shown = "null" if value is None else value
        expected = f"{legal.kind}{legal.words}"
        raise UserError(f"{name}: generation.{key}={shown}; give {expected}") from None


def _scoring(settings: Mapping[str, object]) -> dict:
    """Return the group ``scoring``; empty if it is fairseq's own, the options of its scorers."""
    scoring = settings.get("scoring")
    return dict(scoring) if isinstance(scoring, Mapping) and "_name" not in scoring else {}


def _task(settings: Mapping[str, object]) -> str:
    task = settings.get("task")
    return str(task.get("_name") if isinstance(task, Mapping) else task)


def _kind(settings: Mapping[str, object]) -> str | None:
    task = _task(settings)
    return next((name for name, kind in KINDS.items() if kind.task in task), None)


def _options(search: Mapping, defaults: Mapping) -> Iterator[str]:
    """Yield the group ``generation`` as options of fairseq-generate, except beam and lenpen."""
    for key, value in search.items():
        off = key in ("_name", "beam", "lenpen") or value is None or value is False
        if not off and value != defaults.get(key):
            yield flag(key)
            if value is not True:
                yield str(value)
