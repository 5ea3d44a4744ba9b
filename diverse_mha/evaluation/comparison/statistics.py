"""Statistics of ``compare``: BLEU, chrF, bootstrap, t-tests, analysis of variance, Holm."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, variance

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
    present = (translation > 0) & (reference > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        orders = present.sum(axis=-1)
        precision = np.where(present, both / translation, 0.0).sum(axis=-1) / orders
        recall = np.where(present, both / reference, 0.0).sum(axis=-1) / orders
        weighted = BETA**2 * precision + recall
        scores = 100 * (1 + BETA**2) * precision * recall / weighted
    return np.where(np.nan_to_num(weighted) > 0, scores, 0.0)


def average(sums: np.ndarray) -> np.ndarray:
    """Return the mean of sentence scores; sums (..., 2) are sum and number of the scores."""
    return sums[..., 0] / sums[..., 1]


METRICS: dict[str, Metric] = {"BLEU": bleu, "chrF": chrf}
SCORE = "score"  # scores of another program
RESAMPLED = METRICS | {SCORE: average}


def sentence_statistics(
    hypotheses: Sequence[str], reference: Sequence[str], *, tokenize: str, lowercase: bool
) -> dict[str, np.ndarray]:
    """Return sacreBLEU's counts by metric: (sentences, K), whole numbers as float64."""
    from sacrebleu.metrics import BLEU, CHRF

    counters = {
        "BLEU": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrF": CHRF(char_order=CHARACTERS, lowercase=lowercase),
    }
    texts = list(hypotheses), [list(reference)]
    # sacreBLEU's significance tests use the same method.
    return {
        name: np.array(counter._extract_corpus_statistics(*texts), dtype=np.float64)
        for name, counter in counters.items()
    }


LEVEL = 0.95
POWER = 0.8
CHUNK = 500  # resamples at a time


@dataclass(frozen=True)
class Difference:
    """A difference of means, system minus baseline."""

    value: float
    interval: tuple[float, float] | None = None  # 95 %; None: the spread is unknown
    p: float | None = None  # two-sided; None likewise
    standard_error: float | None = None
    degrees: float | None = None  # degrees of freedom of t; None: infinite or no interval
    over_seeds: bool = False  # False: about these models only
    by_seed: bool = False  # models of one seed were compared (:func:`by_rows_and_seeds`)

    @property
    def detectable(self) -> float | None:
        """Smallest true difference that the uncorrected test detects with 80 % power."""
        from scipy.special import nctdtrinc, ndtri, stdtrit

        if not self.standard_error:
            return None
        if self.degrees is None:
            return self.standard_error * float(ndtri((1 + LEVEL) / 2) + ndtri(POWER))
        bound = stdtrit(self.degrees, (1 + LEVEL) / 2)
        return self.standard_error * float(nctdtrinc(self.degrees, 1 - POWER, bound))


def by_t(value: float, error: float, degrees: float, *, over_seeds: bool) -> Difference:
    """Return a difference with interval, value ± t * error, and p-value.

    ``error`` is the standard error; infinite ``degrees`` of freedom mean the normal distribution.
    An error of 0 with a non-zero value means too few or too coarse scores: no interval.
    """
    from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

    if error == 0 and value != 0:
        return Difference(value, over_seeds=over_seeds)
    p = float(2 * stdtr(degrees, -abs(value) / error)) if error else 1.0
    width = float(stdtrit(degrees, (1 + LEVEL) / 2)) * error
    finite = degrees if math.isfinite(degrees) else None  # JSON has no infinity
    return Difference(value, (value - width, value + width), p, error, finite, over_seeds)


def rate(differences: np.ndarray, counts: np.ndarray) -> Difference:
    """Return the mean difference for each unit (such as a token): sum d / sum n over sentences.

    d is a sentence's difference and n its number of units. The standard error is that of a ratio
    (Cochran 1977, section 2.11), the interval is by Student's t.
    """
    sentences, total = len(counts), float(counts.sum())
    value = float(differences.sum()) / total
    if sentences < 2:
        return Difference(value)
    rest = differences - value * counts
    error = math.sqrt(sentences / (sentences - 1) * float(np.square(rest).sum())) / total
    return by_t(value, error, sentences - 1, over_seeds=False)


def satterthwaite(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """Return total^2 / sum of part^2 / degrees, degrees of freedom (Satterthwaite 1946).

    ``parts`` are the estimated parts of the variance ``total`` and their degrees.
    """
    spread = sum(part**2 / degrees for part, degrees in parts)
    return total**2 / spread if spread else math.inf


def welch(baseline: Sequence[float], system: Sequence[float], step: float = 0.0) -> Difference:
    """Compare means over seeds (Welch 1947); no interval with one seed on a side.

    Scores rounded to multiples of ``step`` have at least the variance of rounding.
    """
    value = mean(system) - mean(baseline)
    if min(len(baseline), len(system)) < 2:
        return Difference(value)
    least = step**2 / 12
    sides = (baseline, system)
    parts = [(max(variance(side), least) / len(side), len(side) - 1) for side in sides]
    total = sum(part for part, _ in parts)
    return by_t(value, math.sqrt(total), satterthwaite(total, parts), over_seeds=True)


def by_rows_and_seeds(
    scores: Sequence[Mapping[int, float]], step: float = 0.0
) -> list[Difference | None]:
    """Compare rows with the first one seed by seed, by an analysis of variance.

    score = row + seed + noise by least squares; all rows share one variance of the noise. With two
    rows it is Student's paired t.

    Args:
        scores: each row's score by seed; seeds may be missing.
        step: scores were rounded to its multiples; the noise is at least step^2 / 12.

    Returns:
        The differences of all rows but the first. No interval with one seed; None where no seed
        links a row to the first, directly or through other rows.
    """
    seeds = sorted({seed for row in scores for seed in row})
    cells = [
        (row_number, seed, value)
        for row_number, row in enumerate(scores)
        for seed, value in row.items()
    ]
    design = np.zeros((len(cells), len(scores) + len(seeds)))
    for line, (row_number, seed, _) in zip(design, cells, strict=True):
        line[[row_number, len(scores) + seeds.index(seed)]] = 1
    inverse = np.linalg.pinv(design)
    values = np.array([value for *_, value in cells])
    effects = inverse @ values
    degrees = len(cells) - np.linalg.matrix_rank(design)
    rest = np.square(values - design @ effects).sum()
    # Scores lie between 1 and 1,000, so smaller residuals are rounding.
    noise = max(round(float(rest) / int(degrees), 20), step**2 / 12) if degrees else None
    differences: list[Difference | None] = []
    for row_number in range(1, len(scores)):
        contrast = np.zeros(design.shape[1])
        contrast[[0, row_number]] = -1, 1
        weights = contrast @ inverse  # of each score in the difference
        value = round(float(weights @ values), 10)
        if not np.allclose(weights @ design, contrast):
            differences.append(None)
        elif noise is None or min(len(scores[0]), len(scores[row_number])) < 2:
            differences.append(Difference(value, by_seed=True))
        else:
            error = math.sqrt(noise * np.square(weights).sum())
            differences.append(
                replace(by_t(value, error, int(degrees), over_seeds=True), by_seed=True)
            )
    return differences


def draws(sentences: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield bootstrap counts, how often each sentence is drawn: (up to ``CHUNK``, sentences)."""
    generator = np.random.default_rng(seed)
    shares = np.full(sentences, 1 / sentences)
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        yield generator.multinomial(sentences, shares, size=size).astype(np.float64)


def resampled_scores(
    statistics: np.ndarray, metric: Metric, *, resamples: int, seed: int
) -> np.ndarray:
    """Return scores (resamples, models) on shared resamples; statistics (models, sentences, K)."""
    models, sentences, size = statistics.shape
    side_by_side = statistics.transpose(1, 0, 2).reshape(sentences, models * size)
    scores = [
        metric((counts @ side_by_side).reshape(-1, models, size))
        for counts in draws(sentences, resamples, seed)
    ]
    return np.concatenate(scores)


def difference(
    baseline: Sequence[float], system: Sequence[float], resampled: tuple[np.ndarray, np.ndarray]
) -> Difference:
    """Compare two methods by their seeds' scores on the whole test set.

    A score is method + seed + sentence + method in sentence + seed in sentence. With n seeds the
    last term adds I/n to the variance of a method's mean. The bootstrap over sentences contains it,
    and so does the seeds' sample variance over n: only what exceeds I is added of the latter.
    Interval and p-value use Student's t: percentiles of so few seeds are too narrow.
    The squared standard error is the bootstrap's variance of the difference plus, for each side,
    max(0, s^2 - I) / n: s^2 is the variance of the seeds' scores and I the part of it that is due
    to sentences. The degrees of freedom are those of s^2 / n. With one seed on a side the error is
    the bootstrap's alone.

    Args:
        baseline: a score a seed.
        system: a score a seed.
        resampled: both methods' scores on shared resamples, (resamples, seeds).
    """
    value = mean(system) - mean(baseline)
    total = float((resampled[1].mean(axis=1) - resampled[0].mean(axis=1)).var(ddof=1))
    if min(len(baseline), len(system)) < 2:
        return by_t(value, math.sqrt(total), math.inf, over_seeds=False)
    parts = []
    for scores, drawn in zip((baseline, system), resampled, strict=True):
        spread, count = variance(scores), len(scores)
        total += max(0.0, spread - _of_single_seeds(drawn)) / count
        parts.append((spread / count, count - 1))
    return by_t(value, math.sqrt(total), satterthwaite(total, parts), over_seeds=True)


def _of_single_seeds(scores: np.ndarray) -> float:
    """Return I, the variance due to sentences, estimated from scores (resamples, seeds)."""
    deviations = scores - scores.mean(axis=1, keepdims=True)
    return float(deviations.var(axis=0, ddof=1).sum()) / (scores.shape[1] - 1)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for their number (Holm 1979); None is not counted.

    The k-th smallest of n becomes the largest (n - j + 1) p_j for j up to k, at most 1.
    """
    order = sorted((p, index) for index, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        corrected[index] = largest
    return corrected
