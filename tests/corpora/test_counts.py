"""The papers' numbers beside ours."""

import pytest

from diverse_mha.corpora.counts import PaperCount, comparison


@pytest.mark.parametrize(
    "stated, low, high",
    [
        ("223,162", 223_162, 223_162),
        ("160k", 159_500, 160_500),
        ("4.5M", 4_450_000, 4_550_000),
        ("20M", 19_500_000, 20_500_000),
        ("20.6M", 20_550_000, 20_650_000),
    ],
)
def test_rounded_numbers_stand_for_an_interval(stated, low, high):
    assert PaperCount("paper", "train", stated).interval() == (low, high)


def test_what_does_not_fit_is_a_warning_with_the_difference():
    stated = [PaperCount("p", "train", "160k"), PaperCount("q", "test", "1,116", "a reason")]
    assert list(comparison(stated, {"train": 160_239, "test": 1_080})) == [
        "train: 160,239 pairs; p has 160k: fits",
        "warning: test: 1,080 pairs; q has 1,116: 36 too few (a reason)",
    ]
    assert list(comparison(stated[:1], {"train": 161_000})) == [
        "warning: train: 161,000 pairs; p has 160k: 500 too many"
    ]


def test_unreadable_statement_is_our_mistake():
    with pytest.raises(ValueError, match="'many' is not a number"):
        PaperCount("p", "train", "many").interval()
