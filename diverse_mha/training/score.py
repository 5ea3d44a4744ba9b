"""The score of an experiment: the last line of ``diverse-mha run``."""

import math
from collections.abc import Mapping
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json


def print_score(name: str, file: Path) -> None:
    """Print the score ``name`` of a result; for BLEU of tokens, sacreBLEU beside it."""
    cure = f"delete {file.stem}.* there and run again"
    result = read_json(file, cure)
    try:
        of = ""
        if name == "accuracy":
            others = [] if _tests_in(result) else result["subsets"]
            of = f" of {', '.join(others)}, as there is no split test*" if others else ""
        elif name == "tokenised_bleu" and name not in result:
            name, of = "sacrebleu", ", as the corpus was not tokenised"
        elif name.endswith("bleu") and name != "sacrebleu":
            of = f" (sacreBLEU {_finite(result['sacrebleu']):.2f})"
        score = _finite(score_of(name, result))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UserError(f"{file}: has no score {name}; {cure}") from None
    print(f"\n{'sacreBLEU' if name == 'sacrebleu' else name} {score:.2f}{of}: {file}")


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def score_of(name: str, result: Mapping) -> float:
    """Return a score of an evaluation's result; accuracy is over all test sets together.

    A corpus without a test set has the accuracy over all splits that were evaluated.
    """
    if name != "accuracy":
        return result[name]
    # numpy and sacreBLEU, which it imports, are not needed before.
    from diverse_mha.evaluation.comparison.runs import accuracy

    subsets = result["subsets"]
    if not subsets:
        raise ValueError(name)
    return accuracy({split: subsets[split] for split in _tests_in(result) or subsets})


def _tests_in(result: Mapping) -> list[str]:
    """Return the test sets of a classifier's result."""
    return [split for split in result["subsets"] if split.startswith("test")]
