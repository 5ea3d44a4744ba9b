"""BLEU and chrF of many resampled test sets at once, from sums of sentence statistics.

A corpus score depends on sums of sacreBLEU's sentence counts alone. The formulas are sacreBLEU's
(``nrefs:1``, ``smooth:exp`` and ``nc:6|nw:0``) on arrays.
"""

from collections.abc import Callable, Sequence

import numpy as np

ORDER = 4  # of BLEU
CHARACTERS = 6  # order of chrF
BETA = 2.0  # weight of recall in chrF


#: From sums (..., K) of sentence statistics to corpus scores (...), in percent.
Metric = Callable[[np.ndarray], np.ndarray]


def bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU in percent (Papineni et al. 2002), smoothed as in mteval-v13a.

    BP * exp(mean over n of log p_n) with p_n = matches / n-grams; the k-th order without a match
    counts 1 / (2^k n-grams).

    Args:
        sums: (..., 10), sacreBLEU's order: words of the translation and of the reference, then
            matches and n-grams of the translation for n = 1 to 4.
    """
    sums = np.asarray(sums, dtype=np.float64)
    length, reference = sums[..., 0], sums[..., 1]
    matches, total = sums[..., 2 : 2 + ORDER], sums[..., 2 + ORDER :]
    missed = (matches == 0) & (total > 0)
    numerator = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(total > 0, numerator / total, 0.0)
        logarithm = np.log(precisions).mean(axis=-1)  # -inf where an order has no n-gram
        brevity = np.minimum(0.0, 1 - reference / length)
        scores = 100 * np.exp(brevity + logarithm)
    return np.where((matches > 0).any(axis=-1), scores, 0.0)


def chrf(sums: np.ndarray) -> np.ndarray:
    """Return chrF2 in percent (Popovic 2015), effective orders only, as sacreBLEU does.

    (1 + b^2) P R / (b^2 P + R), with P and R the means of precision and recall over the orders
    that both texts have.

    Args:
        sums: (..., 18): for each order 1 to 6 the character n-grams of the translation, of the
            reference, and of both.
    """
    sums = np.asarray(sums, dtype=np.float64)
    sums = sums.reshape(*sums.shape[:-1], CHARACTERS, 3)
    translation, reference, both = (sums[..., place] for place in range(3))
    there = (translation > 0) & (reference > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        orders = there.sum(axis=-1)
        precision = np.where(there, both / translation, 0.0).sum(axis=-1) / orders
        recall = np.where(there, both / reference, 0.0).sum(axis=-1) / orders
        weighted = BETA**2 * precision + recall
        scores = 100 * (1 + BETA**2) * precision * recall / weighted
    return np.where(np.nan_to_num(weighted) > 0, scores, 0.0)


def average(sums: np.ndarray) -> np.ndarray:
    """Return the mean of sentence scores; sums (..., 2) are of the scores and their number."""
    return sums[..., 0] / sums[..., 1]


METRICS: dict[str, Metric] = {"BLEU": bleu, "chrF": chrf}
SCORE = "score"  # another program's
RESAMPLED = METRICS | {SCORE: average}


def sentence_statistics(
    hypotheses: Sequence[str], reference: Sequence[str], *, tokenize: str, lowercase: bool
) -> dict[str, np.ndarray]:
    """Return sacreBLEU's counts by metric: (sentences, K) whole numbers in float64."""
    from sacrebleu.metrics import BLEU, CHRF

    counters = {
        "BLEU": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrF": CHRF(char_order=CHARACTERS, lowercase=lowercase),
    }
    texts = list(hypotheses), [list(reference)]
    # sacreBLEU's own significance tests take its counts from the same method.
    return {
        name: np.array(counter._extract_corpus_statistics(*texts), dtype=np.float64)
        for name, counter in counters.items()
    }
