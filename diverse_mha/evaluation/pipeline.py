"""Pipeline of a recipe besides training: preparation, averaging, search and score.

It is in the groups ``generation``, ``eval_lm`` and ``scoring`` of a recipe and of its checkpoints.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag

GROUPS = ("generation", "eval_lm", "scoring")  # training does not read them
#: Scores by kind of model, the default first.
SCORES = {
    "translation": ("tokenised_bleu", "sacrebleu", "compound_split_bleu"),
    "language_model": ("perplexity",),
    "classifier": ("accuracy",),
}
#: The kind by a part of the task's name.
_KINDS = {
    "translation": "translation",
    "language_modeling": "language_model",
    "classification": "classifier",
}
_KEYS = ("prepare", "average", "average_by", "score", "time")  # of ``scoring``


@dataclass(frozen=True)
class Pipeline:
    """The steps around a training."""

    kind: str  # a key of ``SCORES``
    prepare: tuple[str, ...] = ()  # a script of ``data-prep/`` and its options; empty: none
    average: int = 0  # number of last checkpoints; 0: the best one
    average_by: str = "update"  # or ``epoch``
    score: str = ""  # the score that the paper reports
    beam: int = 5
    lenpen: float = 1.0
    evaluate: tuple[str, ...] = ()  # further options of the evaluation

    @property
    def options(self) -> tuple[str, ...]:
        """All options of the evaluation."""
        if self.kind != "translation":
            return self.evaluate
        return ("--beam", str(self.beam), "--lenpen", f"{self.lenpen:g}", *self.evaluate)


def read_pipeline(
    settings: Mapping[str, Mapping], name: object = "recipe", defaults: Mapping | None = None
) -> Pipeline:
    """Read the pipeline from the settings of a recipe or checkpoint.

    Args:
        settings: settings by group.
        name: the file, for messages.
        defaults: fairseq's values of the group ``generation``, which are left out.
    """
    task = str((settings.get("task") or {}).get("_name"))
    kind = next((kind for part, kind in _KINDS.items() if part in task), None)
    if kind is None:
        raise UserError(f"{name}: no evaluation for task {task}; evaluate with fairseq's commands")
    scoring = dict(settings.get("scoring") or {})
    if "_name" in scoring:  # a scorer of fairseq
        scoring = {}
    for key in sorted(scoring.keys() - {*_KEYS}):
        raise UserError(f"{name}: scoring has no {key}; choose from {', '.join(_KEYS)}")
    average, by = scoring.get("average") or 0, scoring.get("average_by") or "update"
    score = scoring.get("score") or SCORES[kind][0]
    for key, value, known in (
        ("score", score, SCORES[kind]),
        ("average_by", by, ("update", "epoch")),
    ):
        if value not in known:
            raise UserError(f"{name}: scoring.{key}={value}; choose from {', '.join(known)}")
    if not isinstance(average, int) or average < 0:
        raise UserError(f"{name}: scoring.average={average}; give a whole number, 0 for the best")
    search = dict(settings.get("generation") or {})
    words: list[str] = []
    if kind == "translation":
        words += _options(search, defaults or {})
        words += ["--compound-split"] if score == "compound_split_bleu" else []
    elif kind == "language_model":
        window = (settings.get("eval_lm") or {}).get("context_window") or 0
        words += ["--context-window", str(window)] if window else []
    return Pipeline(
        kind=kind,
        prepare=tuple(shlex.split(scoring.get("prepare") or "")),
        average=average,
        average_by=by,
        score=score,
        beam=search.get("beam", Pipeline.beam),
        lenpen=float(search.get("lenpen", Pipeline.lenpen)),
        evaluate=tuple(words),
    )


def _options(search: Mapping, defaults: Mapping) -> Iterator[str]:
    """Yield fairseq-generate's options of a group ``generation``, without beam and lenpen."""
    for key, value in search.items():
        off = key in ("_name", "beam", "lenpen") or value is None or value is False
        if not off and value != defaults.get(key):
            yield flag(key)
            if value is not True:
                yield str(value)
