"""Reading fairseq's log."""

import json

from diverse_mha.reproduce.training_log import (
    progress,
    read_log,
    updates_of_last_start,
    valid_perplexity,
)


def line(**values):
    return "INFO " + json.dumps({key: str(value) for key, value in values.items()})


LOG = [
    "$ first start",
    "num. shared model params: 5,989,376 (num. trained: 5,989,376)",
    "num. expert model params: 0 (num. trained: 0)",
    line(epoch=1, loss=9, ups=0.1, num_updates=5),  # warming up
    line(epoch=1, loss=8, ups=2.0, num_updates=10),
    line(epoch=1, valid_loss=7, valid_nll_loss=6, valid_ppl=64, valid_num_updates=10),
    line(epoch=1, loss=7, ups=4.0, num_updates=15),
    "{'a': 'dictionary', \"of\": 'Python'}",
    "$ second start, from the checkpoint of update 10",
    line(epoch=1, loss=7, ups=0.2, num_updates=15),
    line(epoch=1, loss=7, ups=6.0, num_updates=20),
    line(epoch=1, valid_loss=5, valid_nll_loss=7, valid_ppl=32, valid_num_updates=20),
    line(epoch=1, train_loss=7, train_ups=1, train_num_updates=20),
]


def test_what_a_log_says(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join(LOG) + "\n")
    found = read_log(path)
    assert found["parameters"] == 5_989_376
    assert found["steps_per_second"] == 4.0, "the median of 2, 4 and 6"
    assert found["updates"] == 20
    assert [entry["valid_num_updates"] for entry in found["validation"]] == [10, 20]
    assert valid_perplexity(found["validation"], "nll_loss", False) == 64
    assert valid_perplexity(found["validation"], "loss", False) == 32
    assert valid_perplexity(found["validation"], "nll_loss", True) == 32
    assert valid_perplexity(found["validation"], "bleu", True) is None
    assert progress(path) == 20


def test_updates_of_the_last_start(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join(LOG[:7]) + "\n")
    assert updates_of_last_start(path) == 15
    resumed = "INFO Loaded checkpoint runs/a/checkpoint_last.pt (epoch 2 @ 10 updates)"
    path.write_text("\n".join([*LOG[:9], resumed, *LOG[9:]]) + "\n")
    assert updates_of_last_start(path) == 10
    path.write_text("\n".join([*LOG[:9], resumed]) + "\n")
    assert updates_of_last_start(path) == 0, "there was nothing left to do"


def test_an_empty_log_says_nothing(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("")
    assert read_log(path)["updates"] is None and progress(path) is None
