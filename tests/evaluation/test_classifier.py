"""Scores of a classifier's answers, and the command's options."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.classifier import load_split, predict, score, subsets_of
from diverse_mha.evaluation.loaded import Loaded

# predicted class, right class, group
ANSWERS = [(0, 0, 0), (1, 0, 0), (2, 2, 2), (0, 0, 2), (1, 1, 2)]


def test_scores_by_hand():
    result = score(ANSWERS, ["1", "2", "3"])
    assert result == {
        "examples": 5,
        "accuracy": 80.0,
        "majority": 60.0,
        "groups": {"1": {"examples": 2, "accuracy": 50.0}, "3": {"examples": 3, "accuracy": 100.0}},
    }
    assert "groups" not in score(ANSWERS)


def test_subsets_are_found_in_their_order(tmp_path):
    (tmp_path / "label").mkdir()
    for name in ("train", "valid", "test1", "test10", "test2"):
        (tmp_path / "label" / f"{name}.idx").touch()
    assert subsets_of(tmp_path, None) == ["test1", "test2", "test10", "valid"]
    assert subsets_of(tmp_path, "train, test2") == ["train", "test2"]


def test_a_folder_with_nothing_but_the_training_split_is_refused(tmp_path):
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / "train.idx").touch()
    with pytest.raises(UserError, match="--subset is missing: .* has train; name what to score"):
        subsets_of(tmp_path, None)


class Stub:
    """Stands in for a task whose batches are of sentences of like length, in any order."""

    def __init__(self, sizes=(), batches=()):
        self.sizes, self.batches = np.array(sizes), batches

    def load_dataset(self, subset):
        pass

    def dataset(self, subset):
        return SimpleNamespace(sizes=self.sizes)

    def get_batch_iterator(self, dataset, max_sentences):
        return SimpleNamespace(next_epoch_itr=lambda shuffle: self.batches)


class Reader(torch.nn.Linear):
    """A model that takes the class it reads."""

    def forward(self, src_tokens):
        return (torch.nn.functional.one_hot(src_tokens, 3),)

    def max_positions(self):
        return 5


def test_answers_come_in_the_order_of_the_data():
    batches = [
        {
            "id": torch.tensor(ids),
            "net_input": {"src_tokens": torch.tensor([n % 3 for n in ids])},
            "target": torch.tensor([n // 2 for n in ids]),
        }
        for ids in ([3, 1], [0, 2])
    ]
    loaded = Loaded("x.pt", "", Reader(1, 1), Stub(batches=batches))
    found = predict(loaded, "test", 2)
    assert found == [(0, 0, None), (1, 0, None), (2, 1, None), (0, 1, None)]


def test_a_sentence_that_is_too_long_is_named():
    load_split(Reader(1, 1), Stub((3, 5, 2)), "test")
    with pytest.raises(UserError, match="test: example 2 has a sentence of 6 tokens, and the mo"):
        load_split(Reader(1, 1), Stub((3, 6, 2)), "test")
