"""Intervals and Holm's correction agree with scipy, closed forms and simulation."""

import math
import operator

import numpy as np
import pytest
from scipy import stats

from diverse_mha.evaluation.comparison.statistics import (
    average,
    by_rows_and_seeds,
    by_t,
    difference,
    holm,
    rate,
    resampled_scores,
    welch,
)

BASELINE, SYSTEM = (31.2, 30.4, 31.9), (32.0, 32.9, 31.7, 33.1)
MEAN = operator.itemgetter((..., 0))  # sentence scores, with a known standard error


def test_welch_equals_scipy():
    found = welch(BASELINE, SYSTEM)
    expected = stats.ttest_ind(SYSTEM, BASELINE, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue) and found.over_seeds
    assert found.interval == pytest.approx((low, high))
    assert found.degrees == pytest.approx(expected.df)


def test_two_systems_with_shared_seeds_are_compared_by_paired_t_as_in_scipy():
    rows = {1: 31.2, 2: 30.4, 3: 31.9, 4: 33.0}, {2: 31.3, 1: 31.6, 3: 31.8}
    (found,) = by_rows_and_seeds(rows)
    expected = stats.ttest_rel([31.6, 31.3, 31.8], [31.2, 30.4, 31.9])
    assert found.p == pytest.approx(expected.pvalue) and found.degrees == 2 and found.by_seed
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_noise_is_the_residual_of_row_and_seed_means():
    """If all R rows have all S seeds, there are (R - 1)(S - 1) degrees of freedom."""
    y = np.array([[40.5, 39.8, 40.1], [38.9, 38.5, 38.4], [41.0, 40.1, 40.9], [40.2, 40.2, 39.6]])
    rest = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0) + y.mean()
    error = math.sqrt(np.square(rest).sum() / 6 * 2 / 3)
    found = by_rows_and_seeds([dict(enumerate(row)) for row in y])
    for one, row in zip(found, y[1:], strict=True):
        difference = row.mean() - y[0].mean()
        assert one.value == pytest.approx(difference) and one.degrees == 6
        assert one.p == pytest.approx(2 * stats.t.sf(abs(difference) / error, 6))


def test_missing_seeds_are_compared_by_least_squares():
    baseline, other = {1: 10.0, 2: 20.0}, {1: 11.0, 2: 23.0}
    alone, elsewhere = {2: 25.0}, {3: 5.0}
    found = by_rows_and_seeds([baseline, other, alone, elsewhere])
    # Seed 2 is on average 11 above seed 1, so least squares give the baseline 9.5 and 20.5. Of
    # seed 2, `alone` has 25, which is 4.5 above 20.5.
    assert [one and one.value for one in found] == pytest.approx([2.0, 4.5, None])
    assert found[0].degrees == 1 and found[0].over_seeds
    assert found[1].interval is None and not found[1].over_seeds
    assert by_rows_and_seeds([{1: 3.0}, {1: 4.0}])[0].p is None, (
        "no degrees of freedom are left for the noise"
    )
    # A baseline with one seed gets no intervals: only the rows of other systems show the noise.
    found = by_rows_and_seeds([{2: 25.0}, baseline, other])
    assert [one.interval for one in found] == [None, None]


def test_equal_scores_of_every_seed_have_a_p_value_of_1():
    rows = [{seed: 40 + 0.1 * seed for seed in range(5)}] * 3
    assert [one.p for one in by_rows_and_seeds(rows)] == [1, 1]


def test_holm_correction_equals_a_hand_computation():
    # The sorted values 0.01, 0.02, 0.03, 0.3 are multiplied by 4, 3, 2, 1 and made non-decreasing.
    assert holm([0.02, 0.3, 0.01, 0.03]) == pytest.approx([0.06, 0.3, 0.04, 0.06])
    assert holm([0.9, None, 0.6]) == [1.0, None, 1.0]
    assert holm([0.02, None, 0.01]) == pytest.approx([0.02, None, 0.02]), "None counts as no test"
    assert holm([]) == [] and holm([None]) == [None]


def test_scores_without_spread_have_no_interval():
    assert by_t(0.0, 0.0, 4, over_seeds=True).p == 1
    # Equal rounded scores show no spread, but do not prove a difference.
    for found in (by_t(1.0, 0.0, 4, over_seeds=True), welch([3.0, 3.0], [2.0, 2.0])):
        assert found.p is None and found.interval is None and found.value


def test_equal_differences_of_rounded_scores_have_an_interval():
    rows = [{1: 2.312, 2: 2.298}, {1: 2.280, 2: 2.266}]
    assert by_rows_and_seeds(rows)[0].p is None
    (found,) = by_rows_and_seeds(rows, step=0.001)
    # Expected: Student's t with one degree of freedom and the rounding error 0.001 / sqrt(12).
    assert found.p == pytest.approx(2 * stats.t.sf(0.032 / (0.001 / math.sqrt(12)), 1))
    assert found.value == pytest.approx(-0.032)


def test_with_one_seed_the_standard_error_is_that_over_sentences():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(2, 400))
    sums = np.stack([scores, np.ones((2, 400))], axis=-1)
    resampled = resampled_scores(sums, average, resamples=4000, seed=1)
    values = scores.mean(axis=1)
    found = difference(values[:1], values[1:], (resampled[:, :1], resampled[:, 1:]))
    per_sentence = scores[1] - scores[0]
    # Tolerance: four times the relative standard error of a standard deviation over 4,000 draws.
    assert found.standard_error == pytest.approx(per_sentence.std() / 20, rel=0.045)
    assert not found.over_seeds and found.degrees is None


def test_a_rate_of_two_sentences_has_the_interval_of_a_ratio():
    found = rate(np.array([1.0, 3.0]), np.array([2, 2]))  # residuals -1 and 1 of 4 tokens
    assert (found.value, found.degrees, found.over_seeds) == (1.0, 1, False)
    assert found.standard_error == pytest.approx(math.sqrt(2 * (1 + 1)) / 4)
    assert found.interval == pytest.approx(np.add(1, np.array([-0.5, 0.5]) * stats.t.ppf(0.975, 1)))
    assert rate(np.array([1.0]), np.array([2])).interval is None


@pytest.mark.parametrize(
    ("seeds", "over_seeds", "of_single_seeds", "of_methods"),
    [((5, 5), 0.0, 1.0, 0.0), ((5, 2), 0.3, 0.5, 0.5)],
    ids=["single-seeds-alone", "five-and-two"],
)
def test_intervals_have_their_nominal_coverage(seeds, over_seeds, of_single_seeds, of_methods):
    """About 95 % of the intervals of simulated methods contain their true difference, 0.5.

    Of 600 intervals, 570 should contain it, with a standard deviation of 5.3. The number may be
    four standard deviations and another 2 % lower, because t is approximate. The mean squared
    standard error, relative to the variance of differences, detects intervals that are too long.
    """
    rng = np.random.default_rng(5)
    sentences, trials, held = 100, 600, 0
    values, errors = [], []
    for trial in range(trials):
        item = 3 * rng.normal(size=sentences)
        models = []
        for method, count in enumerate(seeds):
            own = of_methods * rng.normal(size=sentences) + 0.5 * method
            for _ in range(count):
                single = of_single_seeds * rng.normal(size=sentences)
                models.append(item + own + single + over_seeds * rng.normal())
        statistics = np.stack(models)[..., None] / sentences
        scores = statistics.sum(axis=(1, 2))
        resampled = resampled_scores(statistics, MEAN, resamples=200, seed=trial)
        first = seeds[0]
        sides = (resampled[:, :first], resampled[:, first:])
        found = difference(scores[:first], scores[first:], sides)
        held += found.interval[0] <= 0.5 <= found.interval[1]
        values.append(found.value)
        errors.append(found.standard_error**2)
    assert held >= 570 - 12 - 21
    assert 0.76 <= np.mean(errors) / np.var(values) <= 1.45 + 4 * 0.06


@pytest.mark.parametrize(("seeds", "spread"), [(2, 1.0), (3, 0.5), (5, 2.0)])
def test_detectable_difference_has_80_percent_power(seeds, spread):
    draw = np.random.default_rng(1)
    degrees = 2 * seeds - 2
    error = spread * (2 / seeds) ** 0.5
    size = by_t(0.1, error, degrees, over_seeds=True).detectable
    estimates = error * np.sqrt(draw.chisquare(degrees, 20_000) / degrees)
    values = draw.normal(size, error, 20_000)
    bound = stats.t.ppf(0.975, degrees)
    assert np.mean(np.abs(values) > bound * estimates) == pytest.approx(0.8, abs=0.01)
    assert by_t(0.1, 1.0, math.inf, over_seeds=False).detectable == pytest.approx(2.8016, abs=1e-4)
    assert welch([1.0], [2.0, 3.0]).detectable is None


def test_the_standard_error_is_at_least_that_of_rounding():
    found = welch([2.0, 2.0], [2.1, 2.1], 0.01)
    assert found.standard_error == pytest.approx((0.01**2 / 12) ** 0.5)
