"""The reader of fairseq's log."""

import json
from types import SimpleNamespace

import pytest

from diverse_mha.training.read_log import read_log, validations
from experiments.numbers import best_validation


def line(**values):
    return "INFO " + json.dumps({key: str(value) for key, value in values.items()})


LOG = [
    "$ first start",
    "num. shared model params: 5,989,376 (num. trained: 5,989,376)",
    "num. expert model params: 0 (num. trained: 0)",
    line(epoch=1, loss=9, ups=0.1, num_updates=5),  # ignored: the first speed of a start
    line(epoch=1, loss=8, ups=2.0, num_updates=10),
    line(epoch=1, valid_loss=7, valid_nll_loss=6, valid_ppl=64, valid_num_updates=10),
    line(epoch=1, loss=7, ups=4.0, num_updates=15),
    "{'a': 'dictionary', \"of\": 'Python'}",
    "$ second start, from the checkpoint of update 10",
    "num. shared model params: 5,989,376 (num. trained: 5,989,376)",
    line(epoch=1, loss=7, ups=0.2, num_updates=15),
    line(epoch=1, loss=7, ups=6.0, num_updates=20),
    line(epoch=1, valid_loss=5, valid_nll_loss=7, valid_ppl=32, valid_num_updates=20),
    line(epoch=1, train_loss=7, train_ups=1, train_num_updates=20),
]


def test_parameters_speed_and_validations_are_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join(LOG) + "\n")
    found = read_log(path)
    assert found["parameters"] == 5_989_376
    assert found["steps_per_second"] == 4.0, "the median of 2, 4 and 6"
    assert found["updates"] == 20
    assert [entry["num_updates"] for entry in found["validation"]] == [10, 20]
    for metric, maximize, perplexity in (
        ("nll_loss", False, 64),
        ("loss", False, 32),
        ("nll_loss", True, 32),
        ("bleu", True, None),
    ):
        keys = ("best_checkpoint_metric", "maximize_best_checkpoint_metric")
        checkpoint = dict(zip(keys, (metric, maximize), strict=True))
        run = SimpleNamespace(composed={"checkpoint": checkpoint})
        best = best_validation(run, found["validation"])
        assert (best and best["ppl"]) == perplexity


@pytest.mark.parametrize("prefix", ["", "[2026-01-02][valid][INFO] - "])
def test_validations_are_read_among_other_lines(prefix):
    lines = [
        "{'valid_num_updates': 3, this is no JSON",
        prefix
        + '{"epoch": 1, "valid_loss": "3", "valid_num_updates": "10", "valid_best_loss": "1"}',
        'begin validation on "valid" subset',
        '{"epoch": 1, "valid1_loss": "3", "valid1_num_updates": "10"}',
        '{"epoch": 2, "valid_loss": "2", "valid_num_updates"',
    ]
    assert validations(lines) == [{"epoch": 1, "loss": 3, "num_updates": 10, "best_loss": 1}]


def test_repeated_validations_replace_earlier_ones():
    lines = [line(epoch=1, valid_loss=n, valid_num_updates=n) for n in (10, 20, 30, 20, 25)]
    assert [entry["num_updates"] for entry in validations(lines)] == [10, 20, 25]


def test_validations_of_an_abandoned_start_are_dropped():
    def validated(*updates):
        return [line(epoch=1, valid_loss=5, valid_num_updates=n) for n in updates]

    def numbers(lines):
        return [entry["num_updates"] for entry in validations(lines)]

    scratch = "INFO No existing checkpoint found runs/a/checkpoint_last.pt"
    resumed = "INFO Loaded checkpoint runs/a/checkpoint_last.pt (epoch 2 @ 60 updates)"
    first = [scratch, *validated(60, 120, 180)]
    assert numbers([*first, scratch, *validated(100)]) == [100]
    assert numbers([*first, resumed, *validated(100)]) == [60, 100]
