"""Reads and scores translations by any toolkit, in text files with one sentence a line."""

from collections.abc import Callable
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.text import read_parallel
from diverse_mha.evaluation.comparison.runs import Scored, seed_of
from diverse_mha.evaluation.comparison.statistics import METRICS, sentence_statistics
from diverse_mha.evaluation.scores import composed


def check_tokeniser(name: str) -> None:
    """Raise an error if sacreBLEU has no tokeniser of this name or cannot load it."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise UserError(f"--tokenize {name}: not in sacreBLEU; give {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name)
    except (OSError, RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--tokenize {name}: does not work here ({reason})") from error


def hypothesis_reader(
    reference: Path, source: Path | None, tokenize: str
) -> Callable[[Path], Scored]:
    """Return a function that reads and scores a file of translations.

    It raises an error if line counts differ, or if the translations are the ``source`` itself.
    """
    texts = {"--reference": reference} | ({} if source is None else {"--source": source})
    lines = dict(zip(texts, read_parallel(texts), strict=True))
    expected = composed(lines["--reference"])

    def read(path: Path) -> Scored:
        _, translations = read_parallel(
            {"--reference": reference, "--system": path}, blank=("--system",)
        )
        if translations == lines.get("--source"):
            raise UserError(f"--system {path}: is the source text; give its translation")
        statistics = sentence_statistics(
            composed(translations), expected, tokenize=tokenize, lowercase=False
        )
        scores = {name: float(metric(statistics[name].sum(0))) for name, metric in METRICS.items()}
        return Scored(str(path), seed_of(path), scores, statistics)

    return read
