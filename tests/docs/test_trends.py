"""Slopes by number of heads and parabolas of held CKA agree with scipy, numpy and small cases."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from results import trends
from results.published import Run, Study


def run(table, row, seed=11, **values):
    columns = {"table": table, "row": row, "seed": str(seed), "precision": "bfloat16"}
    return Run(columns | {name: str(value) for name, value in values.items()})


def rows_of(runs, label):
    """Return the runs by the label of their row, as the tables do."""
    study = Study(Path("no reference"))
    study.runs = runs
    return study.rows(label)


def test_a_slope_and_its_interval_equal_those_of_scipy():
    x, y = [0, 1, 2, 3, 4, 4], [0.3, 0.1, 0.8, 0.4, 1.2, 0.9]
    ours, expected = trends.fit([*zip(x, y, strict=True)], 1), stats.linregress(x, y)
    width = stats.t.ppf(0.975, len(x) - 2) * expected.stderr
    bounds = expected.slope - width, expected.slope + width
    assert [ours.value, ours.p] == pytest.approx([expected.slope, expected.pvalue])
    assert ours.interval == pytest.approx(bounds)


def test_a_curvature_and_its_error_equal_those_of_polyfit():
    rng = np.random.default_rng(3)
    x = np.repeat(np.arange(5.0), 2)
    y = 0.1 * x**2 + rng.normal(size=10)
    ours = trends.fit([*zip(x, y, strict=True)], 2)
    coefficients, covariance = np.polyfit(x, y, 2, cov=True)
    assert ours.value == pytest.approx(coefficients[0])
    assert ours.standard_error == pytest.approx(math.sqrt(covariance[0, 0]))
    assert ours.degrees == 7


def test_too_few_points_for_an_error_have_no_fit():
    assert trends.fit([(0, 1.0), (1, 2.0)], 1) is None
    assert trends.fit([(0, 1.0), (1, 2.0), (2, 2.0)], 2) is None


@pytest.mark.parametrize(("sign", "scale"), [(1, -1.0), (-1, 1.0)])
def test_the_best_target_is_the_vertex_and_the_range_is_as_wide_as_the_parabola(sign, scale):
    points = [(x, scale * 0.01 * (x + 3) ** 2) for x in (-5.0, -4.0, -3.0, -2.0, -1.0)]
    best, low, high = trends.best_target(points, sign, 0.01)
    assert [best, low, high] == pytest.approx([2**-3, 2**-4, 2**-2], rel=0.01)


def test_a_best_target_outside_the_tried_range_is_replaced_by_the_end_of_the_range():
    points = [(x, 0.01 * (x + 9) ** 2) for x in (-5.0, -4.0, -3.0, -2.0, -1.0)]
    assert trends.best_target(points, -1, 0.01)[0] == 2**-5


def test_a_gain_is_computed_over_the_baseline_with_equal_heads_and_seed():
    rows = {
        "2 heads: Baseline": [run("heads", "h2-baseline", 11, sacrebleu=40)]
        + [run("heads", "h2-baseline", 12, sacrebleu=30)],
        "8 heads: Baseline": [run("heads", "h8-baseline", 11, sacrebleu=20)],
        "2 heads: HSIC": [run("heads", "h2-hsic", 11, sacrebleu=41)]
        + [run("heads", "h2-hsic", 12, sacrebleu=33)],
        "8 heads: HSIC": [run("heads", "h8-hsic", 11, sacrebleu=18)],
        "2 heads of width 32: Baseline": [run("heads", "h2-w64-baseline", 11, sacrebleu=7)],
    }
    assert trends.gains_of(rows, "sacrebleu") == {"HSIC": {2: [1.0, 3.0], 8: [-2.0]}}


def test_earlier_runs_with_4_heads_count_if_their_seed_is_that_of_the_table():
    assert trends.OF_HEAD_COUNTS(run("translation-small", "em")) == (
        "4 heads: EM routing, layers 1-2"
    )
    assert trends.OF_HEAD_COUNTS(run("translation-small", "em", seed=1)) is None
    assert trends.OF_HEAD_COUNTS(run("translation-small", "coda")) is None
    assert trends.OF_HEAD_COUNTS(run("heads", "h8-out")) == "8 heads: Out. 0.1"


def test_the_value_at_which_cka_was_held_is_read_from_the_settings():
    words = "method=baseline criterion.cka_target=0.05 criterion.cka_weight=10.0"
    assert trends.target_of(run("held-cka", "t0.05", overrides=words)) == 0.05
    assert trends.target_of(run("held-cka", "baseline", overrides="method=baseline")) is None


def test_drophead_forms_have_svcca_less_that_of_the_baseline_with_seed_2():
    heads = {"cka": 0.2, "exp_d_subspace": 0.8, "exp_d_output": 0.8, "jsd": 3.0}
    scores = heads | {"sacrebleu": 40.0, "logged_nll": 2.5}
    every = [
        run("drophead-forms", "batch", 2, svcca=0.7, **scores),
        run("translation-small", "drophead", 1, svcca=0.9, **scores),
        run("translation-small", "drophead", 2, svcca=0.549, **scores),
        run("translation-small", "baseline", 2, svcca=0.451, **scores),
        run("translation-small", "hsic-1e-7", 2, svcca=0.4, **scores),
        run("translation-small", "baseline", 2, svcca=0.5, precision="float32", **scores),
    ]
    rows = rows_of(every, trends.OF_DROPHEAD_FORMS)
    table = trends.drophead_forms(rows)
    assert {label: cells[0] for label, cells in table.items()} == {
        "Baseline": "",
        "Drophead: sentence, kept heads divided": "+0.098",
        "Drophead: batch, kept heads divided": "+0.249",
    }
    assert table["Baseline"][1:5] == ["40.00", "2.500", "0.451", "0.200"]


def test_output_weights_have_the_loss_less_that_of_the_baseline_with_as_many_heads():
    heads = dict.fromkeys(("svcca", "cka", "exp_d_subspace", "exp_d_output", "jsd"), 0.5)
    every = [
        run("output-weight", "h8-1.0", logged_nll=2.75, sacrebleu=38, **heads),
        run("output-weight", "h4-0.04", logged_nll=2.5, sacrebleu=40, **heads),
        run("heads", "h8-baseline", logged_nll=2.25, sacrebleu=39, **heads),
        run("heads", "h8-hsic", logged_nll=9, sacrebleu=39, **heads),
        run("translation-small", "out-all", logged_nll=4, sacrebleu=3, **heads),
        run("translation-small", "out-all", seed=1, logged_nll=9, sacrebleu=3, **heads),
        run("translation-small", "baseline", logged_nll=2.625, sacrebleu=41, **heads),
    ]
    table = trends.by_output_weight(rows_of(every, trends.OF_OUTPUT_WEIGHT))
    assert [(label, *cells[:3]) for label, cells in table.items()] == [
        ("4 heads: Baseline", "2.625", "", "41.00"),
        ("4 heads: Out. 0.04", "2.500", "-0.125", "40.00"),
        ("4 heads: Out. 1.0", "4.000", "+1.375", "3.00"),
        ("8 heads: Baseline", "2.250", "", "39.00"),
        ("8 heads: Out. 1.0", "2.750", "+0.500", "38.00"),
    ]


def test_gains_by_dropout_are_per_cent_of_the_baseline_with_the_same_dropout():
    scores = {"valid_perplexity": 100, "svcca": 0.5, "cka": 0.2, "jsd": 15.0}
    every = [
        run("ptb-dropout", "d0.0-hsic", 1, test_perplexity=90, **scores),
        run("ptb-dropout", "d0.0-baseline", 1, test_perplexity=120, **scores),
        run("ptb", "baseline", 1, test_perplexity=100, **scores),
        run("ptb", "hsic", 1, test_perplexity=102, **scores),
        run("ptb", "hsic", 2, test_perplexity=60, **scores),
        run("ptb", "hsic", 1, test_perplexity=60, precision="float32", **scores),
    ]
    rows = rows_of(every, trends.OF_DROPOUT)
    assert {label: cells[:2] for label, cells in trends.by_dropout(rows).items()} == {
        "Dropout 0.0: Baseline": ["120.00", ""],
        "Dropout 0.0: HSIC": ["90.00", "+25.0"],
        "Dropout 0.2: Baseline": ["100.00", ""],
        "Dropout 0.2: HSIC": ["102.00", "-2.0"],
    }
