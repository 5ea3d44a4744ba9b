"""Reading fairseq's log."""

import json
from types import SimpleNamespace

from diverse_mha.training.log import Progress, finished, read_log, validations
from experiments.results import best_validation


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
    "num. shared model params: 5,989,376 (num. trained: 5,989,376)",
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


def test_updates_of_the_last_start(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("\n".join(LOG[:7]) + "\n")
    assert read_log(path)["updates_of_last_start"] == 15
    resumed = "INFO Loaded checkpoint runs/a/checkpoint_last.pt (epoch 2 @ 10 updates)"
    path.write_text("\n".join([*LOG[:10], resumed, *LOG[10:]]) + "\n")
    assert read_log(path)["updates_of_last_start"] == 10
    path.write_text("\n".join([*LOG[:10], resumed]) + "\n")
    assert read_log(path)["updates_of_last_start"] == 0, "there was nothing left to do"


def test_what_an_abandoned_start_left_is_dropped():
    def validated(*updates):
        return [line(epoch=1, valid_loss=5, valid_num_updates=n) for n in updates]

    def numbers(lines):
        return [entry["num_updates"] for entry in validations(lines)]

    scratch = "INFO No existing checkpoint found runs/a/checkpoint_last.pt"
    resumed = "INFO Loaded checkpoint runs/a/checkpoint_last.pt (epoch 2 @ 60 updates)"
    first = [scratch, *validated(60, 120, 180)]
    assert numbers([*first, scratch, *validated(100)]) == [100]
    assert numbers([*first, resumed, *validated(100)]) == [60, 100]


def test_an_empty_log_says_nothing(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("")
    assert read_log(path)["updates"] is None
    assert Progress(path, 20, 0).look(0.0) == (None, "starting")


def test_a_training_that_its_time_stopped_goes_on(tmp_path):
    path = tmp_path / "train.log"
    assert not finished(path)
    end = [line(epoch=1, train_num_updates=20), "done training in 3.0 seconds"]
    time = "Stopping training due to cumulative_training_time: 2.1 > stop_time_hours: 2 hour(s)"
    for lines, done in (
        ([], False),
        ([*LOG, *end[:1]], False),
        ([*LOG, *end], True),
        ([*LOG, time, *end], False),
        ([*LOG, time, *end, *LOG, *end], True),  # that was the start before
        ([*LOG, "a.pt has all 20 updates: nothing is left to train; choose another"], True),
    ):
        path.write_text("\n".join(lines))
        assert finished(path) == done


def report(path, update, updates):
    with path.open("a") as file:
        file.write(line(epoch=1, update=update, loss=8, ups=2.0, num_updates=updates) + "\n")
        file.write(line(epoch=1, valid_loss=7, valid_num_updates=updates) + "\n")


def test_progress_by_updates(tmp_path):
    path = tmp_path / "train.log"
    progress = Progress(path, 1000, 0)
    assert progress.look(0.0) == (None, "starting"), "the log is not there yet"
    report(path, 0.5, 100)
    assert progress.look(10.0) == (0.1, "update 100 of 1,000")
    report(path, 1.5, 300)  # 200 in 20 s: 70 s for 700
    assert progress.look(30.0) == (0.3, "update 300 of 1,000, 70 s left")
    # A second start: what the first one did is not its speed.
    again = Progress(path, 1000, 0)
    assert again.look(0.0) == (None, "starting")
    report(path, 2.0, 400)
    again.look(0.0)
    report(path, 2.5, 500)  # 100 in 2 h: 10 h for 500
    assert again.look(7200.0) == (0.5, "update 500 of 1,000, 10.0 h left")


def test_progress_by_epochs_and_by_what_comes_first(tmp_path):
    path = tmp_path / "train.log"
    progress, both = Progress(path, 0, 10), Progress(path, 1000, 10)
    unknown = Progress(path, 0, 0)
    for now, update, updates in ((0.0, 1.0, 100), (100.0, 2.0, 400)):
        report(path, update, updates)
        looks = [p.look(now) for p in (progress, both, unknown)]
    assert looks[0] == (0.2, "update 400, epoch 2.0 of 10, 13 min left")  # 0.1 in 100 s
    assert looks[1] == (0.4, "update 400 of 1,000, epoch 2.0 of 10, 3 min left")
    assert looks[2] == (None, "update 400")
