"""Statistics of ``compare``: BLEU, chrF, bootstrap, t-tests, analysis of variance, Holm."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, variance

import numpy as np

ORDER = 4  # longest n-grams of BLEU
CHARACTERS = 6  # longest character n-grams of chrF
BETA = 2.0  # weight of recall in chrF


#: A function from counts (..., K), summed over sentences, to corpus scores (...).
Metric = Callable[[np.ndarray], np.ndarray]


def bleu(sums: np.ndarray) -> np.ndarray:
    """Return BLEU in percent (Papineni et al. 2002), smoothed as in mteval-v13a.

    BP * exp(mean over n of log p_n), where BP is the brevity penalty and p_n = matches / n-grams of
    order n. For the k-th order without a match, p_n is 1 / (2^k n-grams).

    Args:
        sums: (..., 10) counts in sacreBLEU's order: words of the translation, words of the
            reference, 4 numbers of matches (n = 1 to 4), and 4 numbers of the translation's
            n-grams.
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
    """Return chrF2 in percent (Popovic 2015), over effective orders only, as in sacreBLEU.

    (1 + b^2) P R / (b^2 P + R), with b = ``BETA``. P and R are the means of precision and recall
    over the orders for which both texts have n-grams.

    Args:
        sums: (..., 18) counts: for each order from 1 to 6, the character n-grams of the
            translation, of the reference, and of both.
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
    """Return the mean sentence score; ``sums`` (..., 2) holds the scores' sum and number."""
    return sums[..., 0] / sums[..., 1]


METRICS: dict[str, Metric] = {"BLEU": bleu, "chrF": chrf}
SCORE = "score"  # name of the metric for another program's sentence scores
RESAMPLED = METRICS | {SCORE: average}


def sentence_statistics(
    hypotheses: Sequence[str], reference: Sequence[str], *, tokenize: str, lowercase: bool
) -> dict[str, np.ndarray]:
    """Return metric -> sacreBLEU's counts of each sentence: float64 (sentences, counts)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    counters = {
        "BLEU": BLEU(tokenize=tokenize, lowercase=lowercase, force=True),
        "chrF": CHRF(char_order=CHARACTERS, lowercase=lowercase),
    }
    texts = list(hypotheses), [list(reference)]
    # This method is private, but sacreBLEU's own significance tests use it, too.
    return {
        name: np.array(counter._extract_corpus_statistics(*texts), dtype=np.float64)
        for name, counter in counters.items()
    }


LEVEL = 0.95  # confidence level of intervals
POWER = 0.8  # power at which a difference counts as detectable
CHUNK = 500  # resamples that are scored at a time


@dataclass(frozen=True)
class Difference:
    """A difference of means, system minus baseline."""

    value: float
    interval: tuple[float, float] | None = None  # 95 %; None: unknown spread, or not tested
    p: float | None = None  # two-sided; None: no interval
    standard_error: float | None = None
    degrees: float | None = None  # degrees of freedom of t; None: infinite or no interval
    over_seeds: bool = False  # True: holds for other seeds, too; False: for these models only
    by_seed: bool = False  # True: compared seed by seed (:func:`by_rows_and_seeds`)

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
    """Return a difference with the interval value ± t * error and its p-value.

    ``error`` is the standard error; infinite ``degrees`` of freedom mean the normal distribution.
    An error of 0 with a non-zero value means too few or too coarse scores, so there is no interval.
    """
    from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

    if error == 0 and value != 0:
        return Difference(value, over_seeds=over_seeds)
    p = float(2 * stdtr(degrees, -abs(value) / error)) if error else 1.0
    width = float(stdtrit(degrees, (1 + LEVEL) / 2)) * error
    finite = degrees if math.isfinite(degrees) else None  # JSON has no infinity
    return Difference(value, (value - width, value + width), p, error, finite, over_seeds)


def rate(differences: np.ndarray, counts: np.ndarray) -> Difference:
    """Return the mean difference per unit, such as a token: sum d / sum n over sentences.

    d is a sentence's difference (``differences``), n its number of units (``counts``). The standard
    error is that of a ratio (Cochran 1977, section 2.11). The interval is Student's t.
    """
    sentences, total = len(counts), float(counts.sum())
    value = float(differences.sum()) / total
    if sentences < 2:
        return Difference(value)
    rest = differences - value * counts
    error = math.sqrt(sentences / (sentences - 1) * float(np.square(rest).sum())) / total
    return by_t(value, error, sentences - 1, over_seeds=False)


def satterthwaite(total: float, parts: Sequence[tuple[float, int]]) -> float:
    """Return degrees of freedom: total^2 / sum(part^2 / part's degrees) (Satterthwaite 1946).

    ``total`` is a variance; ``parts`` are its summands with finite degrees of freedom.
    """
    spread = sum(part**2 / degrees for part, degrees in parts)
    return total**2 / spread if spread else math.inf


def welch(baseline: Sequence[float], system: Sequence[float], step: float = 0.0) -> Difference:
    """Compare means over seeds (Welch 1947); no interval with one seed on a side.

    If scores were rounded to multiples of ``step``, their variance is taken as at least that of
    rounding, step^2 / 12.
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

    The model score = row + seed + noise is fitted by least squares. All rows share one noise
    variance. With two rows this is Student's paired t-test.

    Args:
        scores: seed -> score for each row; seeds may be missing.
        step: rounding step of the scores; the noise variance is at least step^2 / 12.

    Returns:
        The differences of all rows but the first. There is no interval if the row or the first row
        has one seed, or if the fit leaves no degree of freedom. None: no seed links the row to the
        first, directly or through other rows.
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
    # For scores up to 1,000, a variance below 1e-20 is a rounding error.
    noise = max(round(float(rest) / int(degrees), 20), step**2 / 12) if degrees else None
    differences: list[Difference | None] = []
    for row_number in range(1, len(scores)):
        contrast = np.zeros(design.shape[1])
        contrast[[0, row_number]] = -1, 1
        weights = contrast @ inverse  # weight of each score in the difference
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
    """Yield how often bootstrap resamples contain each sentence: (up to ``CHUNK``, sentences)."""
    generator = np.random.default_rng(seed)
    shares = np.full(sentences, 1 / sentences)
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        yield generator.multinomial(sentences, shares, size=size).astype(np.float64)


def resampled_scores(
    statistics: np.ndarray, metric: Metric, *, resamples: int, seed: int
) -> np.ndarray:
    """Return the scores (resamples, models) of all models on the same bootstrap resamples.

    ``statistics`` holds the counts for ``metric``: (models, sentences, counts).
    """
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

    The squared standard error is the bootstrap's variance of the difference plus, for each method,
    max(0, s^2 - I) / n. Here n is the number of seeds, s^2 the sample variance of the seeds'
    scores, and I the part of s^2 that is due to the choice of sentences: a seed does better on
    some sentences than on others. I / n is also part of the bootstrap's variance, so it is
    subtracted once. The degrees of freedom are Satterthwaite's, from both s^2 / n. With one seed
    on a side, the error is the bootstrap's alone. Interval and p-value use Student's t, because
    percentiles over so few seeds would be too narrow.

    Args:
        baseline: one score for each seed.
        system: one score for each seed.
        resampled: both methods' scores on the same resamples, (resamples, seeds) each.
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
    """Return I of :func:`difference`, estimated from resampled scores (resamples, seeds)."""
    deviations = scores - scores.mean(axis=1, keepdims=True)
    return float(deviations.var(axis=0, ddof=1).sum()) / (scores.shape[1] - 1)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for the number of tests (Holm 1979); None stays None and is not counted.

    The k-th smallest of n p-values becomes the maximum of (n - j + 1) p_j over j <= k, at most 1.
    """
    order = sorted((p, index) for index, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        corrected[index] = largest
    return corrected
