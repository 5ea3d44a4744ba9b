"""Runs to compare: reads scores and sentence statistics from the files of an evaluation."""

import math
import os
import re
import sys
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json
from diverse_mha.corpora.text import read_lines, read_parallel
from diverse_mha.evaluation.comparison.statistics import METRICS, SCORE, sentence_statistics
from diverse_mha.evaluation.scores import composed

_SEED = re.compile(r"[._-]?seed[=_-]?(\d+)")
_SIGNATURE = re.compile(r"(\w+):([^|]*)")
#: Tokenisers whose name in a signature includes MeCab's version.
_MECAB = re.compile(r"(ja-mecab|ko-mecab)-.*")
#: Settings that comparable perplexities share: the text and its blocks.
_TEXT_SCORED = (
    "subset",
    "tokens",
    "context_window",
    "tokens_per_sample",
    "sample_break_mode",
    "dictionary",
)
#: Keys of the search settings in a result.
_SEARCH = ("beam", "lenpen", "generate_options")
#: Scores, statistics and test, as in :class:`Scored`.
Result = tuple[dict[str, float], dict[str, np.ndarray], dict[str, object]]


@dataclass(frozen=True)
class Scored:
    """The test scores of one model."""

    path: str  # as the user gave it
    seed: int | None  # random seed of the training; None if unknown
    scores: dict[str, float]  # measure, such as ``BLEU`` -> score on the test set
    #: Metric -> counts of each sentence, (sentences, counts).
    statistics: dict[str, np.ndarray] = field(default_factory=dict, compare=False)
    test: dict[str, object] = field(default_factory=dict)  # settings of test set and scorer
    search: dict[str, object] = field(default_factory=dict)  # settings of the beam search
    content: dict = field(default_factory=dict, compare=False)  # contents of the result file

    @property
    def evidence(self) -> Hashable:
        """What a comparison knows of the model; equal for copies under whatever name.

        The statistics of all sentences, or else the perplexity. None for accuracies: models that
        differ often have the same.
        """
        counts = tuple(array.tobytes() for array in self.statistics.values())
        return counts or self.scores.get("perplexity")


def read_run(path: Path) -> Scored:
    """Read a run: a folder with a result, or the result's JSON file."""
    if path.is_dir():
        file = _newest_result(path)
        content = _content(file)
    else:
        file = path
        content = _content(file, "evaluate again, or add --reference if it holds translations")
    if content is None:
        raise UserError(f"{file}: is not the result of an evaluation; name one, or a run's folder")
    if content.get("subset") == "valid":
        raise UserError(f"{file}: is a result on the validation set; name one on a test set")
    search: dict[str, Any] = {name: content.get(name) for name in _SEARCH}
    search["engine"] = content.get("engine", "fairseq")  # 151 of our published results name none
    return Scored(str(path), seed_of(path), *scores_of(file, content), search, content)


def read_scores(path: Path) -> Scored:
    """Read a file with another program's sentence scores, one number a line."""
    values = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            values.append(float(line))
        except ValueError:
            values.append(math.nan)
        if not math.isfinite(values[-1]):
            raise UserError(
                f"--scores {path}, line {number}: {line[:40]!r} is not a number; give the score of "
                "one sentence in each line"
            )
    if not values:
        raise UserError(f"--scores {path}: is empty; give one number for each sentence")
    statistics = {SCORE: np.stack([values, np.ones(len(values))], axis=1)}
    mean = math.fsum(values) / len(values)
    return Scored(str(path), seed_of(path), {SCORE: mean}, statistics, {"scores": len(values)})


def scores_of(file: Path, result: dict, reference: Path | None = None) -> Result:
    """Return a result's scores, statistics and test, as in :class:`Scored`.

    Args:
        file: the JSON file of the result; translations are read from files beside it.
        result: content of ``file``.
        reference: replaces the reference of the evaluation.
    """
    try:
        if "sacrebleu" in result:
            return _evaluated(file, result, reference)
        if "perplexity" in result:
            test = {name: result.get(name) for name in _TEXT_SCORED}
            return {"perplexity": float(result["perplexity"])}, {}, test
        subsets = {k: v for k, v in result["subsets"].items() if k.startswith("test")}
        if not subsets:
            raise UserError(f"{file}: holds no test set, only {', '.join(result['subsets'])}")
        test: dict[str, object] = {"test sets": ", ".join(subsets)}
        for name, subset in subsets.items():
            test[f"examples of {name}"] = subset["examples"]
            test[f"most frequent class of {name}"] = subset.get("majority")
        return {"accuracy": accuracy(subsets)}, {}, test
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{file}: not a result of evaluate ({error!r}); evaluate again") from None


def accuracy(subsets: dict[str, dict]) -> float:
    """Return the accuracy over all examples of several test sets, in percent."""
    examples = sum(subset["examples"] for subset in subsets.values())
    right = sum(subset["accuracy"] * subset["examples"] for subset in subsets.values())
    return right / examples if examples else 0.0


def _content(file: Path, cure: str = "evaluate again") -> dict | None:
    """Read a JSON file; None if it is not a result of an evaluation.

    ``cure`` ends the message about a file that is not JSON.
    """
    content = read_json(file, cure)
    known = {"sacrebleu", "perplexity", "subsets"}
    return content if isinstance(content, dict) and known & content.keys() else None


def _newest_result(folder: Path) -> Path:
    """Return the newest test result in a folder; file names with ``best`` take precedence.

    Results of ensembles, which lie beside their first checkpoint, are left out: they are not the
    run's own.
    """
    contents = {file: _content(file) for file in sorted(folder.glob("*.json"))}
    tested = {
        file: content
        for file, content in contents.items()
        if content and content.get("subset") != "valid"
    }
    results = [file for file, content in tested.items() if not _of_ensemble(content)]
    if tested and not results:
        raise UserError(
            f"{folder}: has results of ensembles alone; evaluate its model first, or name "
            f"{next(iter(tested)).name} in it"
        )
    if not results:
        raise UserError(f"{folder}: has no result of an evaluation; evaluate its model first")
    best = [file for file in results if "best" in file.name] or results
    chosen = max(best, key=lambda file: (file.stat().st_mtime, file.name))
    if len(results) > 1:
        names = ", ".join(file.name for file in results)
        print(f"note: {folder}: using {chosen.name} of {names}", file=sys.stderr)
    return chosen


def _of_ensemble(content: dict) -> bool:
    """Return True if a result is of several checkpoints, whose paths it joins by ':'.

    Only translation models form ensembles; the path of a classifier may contain a colon.
    """
    return "sacrebleu" in content and os.pathsep in str(content.get("checkpoint", ""))


def without_seed(name: str) -> str:
    """Return the name of a run without its seed: ``coda`` for ``coda-seed1``."""
    return _SEED.split(name)[0] or name


def seed_of(path: Path) -> int | None:
    """Return the seed of a run: from its ``result.json``, else from its path; None if unknown."""
    result = path / "result.json"
    if result.is_file():
        content = read_json(result, "run it again")
        return content.get("seed") if isinstance(content, dict) else None
    numbers = _SEED.findall(path.name) or _SEED.findall(path.parent.name)
    return int(numbers[-1]) if numbers else None


def _reference(file: Path, result: dict) -> Path:
    """Return the plain-text reference that a result records; raise an error if it is not there.

    A relative path is looked up below the current folder, then below the folders above ``file``,
    one of which is often that in which the evaluation ran.
    """
    name = f"{result['subset']}.{result['target_lang']}"
    given = result.get("raw_reference")
    for place in (Path.cwd(), *file.absolute().parents):
        reference = place / (given or (place / result["data"]).parent / "raw" / name)
        if reference.is_file():
            return reference
    wanted = Path(given or Path(result["data"]).parent / "raw" / name)
    if wanted.is_absolute():
        raise UserError(f"{file}: its reference {wanted} is gone; put it back")
    raise UserError(
        f"{file}: its reference {wanted} is not here; run compare in the folder in which evaluate "
        "ran, or put it back"
    )


def _evaluated(file: Path, result: dict, reference: Path | None) -> Result:
    """Score the translations again; raise an error if the result records another score."""
    signature = dict(_SIGNATURE.findall(result["sacrebleu_signature"]))
    if reference is None:
        reference = _reference(file, result)
    text = file.with_suffix(".hyp.detok")
    if not text.is_file():
        raise UserError(f"{text}: the translations are gone; run diverse-mha evaluate again")
    lowercase, tokenize = signature["case"] == "lc", _MECAB.sub(r"\1", signature["tok"])
    texts = {"translations": text, "reference": reference}
    hypotheses, lines = map(composed, read_parallel(texts, blank=("translations",)))
    statistics = sentence_statistics(hypotheses, lines, tokenize=tokenize, lowercase=lowercase)
    scores = {name: float(score(statistics[name].sum(axis=0))) for name, score in METRICS.items()}
    if abs(scores["BLEU"] - result["sacrebleu"]) > 1e-3:
        raise UserError(
            f"{file}: records sacreBLEU {result['sacrebleu']:.2f}, but with {reference} it is "
            f"{scores['BLEU']:.2f}; evaluate again"
        )
    test = {
        "subset": result.get("subset"),
        "target_lang": result.get("target_lang"),
        "source text": result.get("source_sha256"),
        "reference": tuple(lines),
        "tokeniser": tokenize,
        "lowercase": lowercase,
        "moses_language": result.get("moses_language"),
    }
    return scores, statistics, test
