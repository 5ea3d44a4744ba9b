"""Scores and options of evaluate-classifier."""

from types import SimpleNamespace

import numpy as np
import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.evaluate_classifier import load_split, score, subsets_of

# predicted class, correct class, group
ANSWERS = [(0, 0, 0), (1, 0, 0), (2, 2, 2), (0, 0, 2), (1, 1, 2)]


def test_accuracy_is_counted_overall_and_by_group():
    result = score(ANSWERS, ["1", "2", "3"])
    assert result == {
        "examples": 5,
        "accuracy": 80.0,
        "majority": 60.0,
        "groups": {"1": {"examples": 2, "accuracy": 50.0}, "3": {"examples": 3, "accuracy": 100.0}},
    }
    assert "groups" not in score(ANSWERS)


def test_subsets_are_in_natural_order(tmp_path):
    (tmp_path / "label").mkdir()
    for name in ("train", "valid", "test1", "test10", "test2"):
        (tmp_path / "label" / f"{name}.idx").touch()
    assert subsets_of(tmp_path, None) == ["test1", "test2", "test10", "valid"]
    assert subsets_of(tmp_path, "train, test2") == ["train", "test2"]


def test_folder_with_only_a_training_split_is_refused(tmp_path):
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / "train.idx").touch()
    with pytest.raises(
        UserError, match="--subset is missing: .* has train; name the splits to score"
    ):
        subsets_of(tmp_path, None)


def split(*sizes):
    """Return a stand-in for a task; each of its splits has sentences of the lengths ``sizes``."""
    dataset = SimpleNamespace(sizes=np.array(sizes))
    return SimpleNamespace(load_dataset=lambda subset: None, dataset=lambda subset: dataset)


def test_a_sentence_that_is_too_long_is_reported():
    model = SimpleNamespace(max_positions=lambda: 5)
    load_split(model, split(3, 5, 2), "test")
    with pytest.raises(UserError, match="test: example 2 has a sentence of 6 tokens, but the mo"):
        load_split(model, split(3, 6, 2), "test")
