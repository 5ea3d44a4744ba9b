"""The runner: skipping, failing, sharing, locking; with commands that cost nothing."""

import fcntl
import json
import os
from dataclasses import replace

import pytest

from diverse_mha.common.errors import UserError
from experiments import steps
from experiments.experiments import Experiment
from experiments.plan import Need, plan
from experiments.runner import Runner
from experiments.scales import CORPORA
from experiments.steps import data_folder
from tests.experiments.conftest import LOG


@pytest.fixture
def started(monkeypatch):
    """Stand in for the commands: a training leaves a log, an evaluation a score."""
    names = []

    def execute(self, step, log):
        names.append(step.name)
        if step.name == "train":
            with (log.parent / "train.log").open("a") as file:
                file.write(LOG)
        else:
            score = log.parent / "test.json"
            score.write_text(json.dumps({"perplexity": 12.5}))

    monkeypatch.setattr(Runner, "_execute", execute)
    return names


def test_finished_runs_are_skipped_and_the_result_is_whole(place, runs, started, capsys):
    first = Runner(place).run_all(runs[:1])
    assert started == ["train", "evaluate", "evaluate"]
    again = Runner(place).run_all(runs[:1])
    assert started == ["train", "evaluate", "evaluate"] and again == first
    assert "(already done)" in capsys.readouterr().out
    result = first[runs[0]]
    assert result["settings"]["model"]["decoder_layers"] == 2 and result["seed"] == 1
    assert result["versions"]["torch"]
    assert result["scores"]["test"]["perplexity"] == 12.5
    assert len(result["commands"]) == 3 and "scripts/train.sh" in result["commands"][0]


def test_the_checkpoints_of_an_average_are_removed_once_the_run_is_finished(
    place, monkeypatch, capsys
):
    recipe = replace(CORPORA["multi30k"]["small"], settings={"scoring.average": 10})
    monkeypatch.setitem(CORPORA["multi30k"], "small", recipe)
    run = plan(Experiment("multi30k"), "small")
    data = data_folder(run, place)
    data.mkdir(parents=True)
    (data / "dict.de.txt").write_text("a 1\n")
    folder = run.folder(place.out)
    names = [f"checkpoint_{n}_{500 * n}.pt" for n in range(3, 13)]
    started = []

    def execute(self, step, log):
        started.append(step.name)
        if step.name == "train":
            (log.parent / "train.log").write_text(LOG + "done training in 3.0 seconds\n")
            for name in [*names, "checkpoint_last.pt", "checkpoint_best.pt"]:
                (folder / name).touch()
        elif step.name == "average":
            (folder / "averaged.pt").touch()

    monkeypatch.setattr(Runner, "_execute", execute)
    assert list(Runner(place).run_all([run])) == [run], capsys.readouterr().out
    left = sorted(path.name for path in folder.glob("*.pt"))
    assert left == ["averaged.pt", "checkpoint_best.pt", "checkpoint_last.pt"]
    (folder / "result.json").unlink()  # the cure for a damaged one
    assert list(Runner(place).run_all([run])) == [run], capsys.readouterr().out
    assert started == ["train", "average", "evaluate", "evaluate"], "they cannot be averaged again"


def test_collecting_trains_nothing(place, runs, started, capsys):
    Runner(place).run_all(runs[:1])
    del started[:]
    found = Runner(place, collect=True).run_all(runs)
    assert list(found) == runs[:1] and started == []
    assert "1 of 4 runs are finished" in capsys.readouterr().out


def test_collecting_measures_nothing_and_takes_what_was_measured(place, runs, started):
    needs = [Need(run, {"measures": "jsd"}) for run in runs[:2]]
    there, checkpoint = steps.heads_file(needs[0], place), steps.checkpoint(runs[0], place)
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    checkpoint.touch()
    os.utime(checkpoint, (there.stat().st_mtime + 60,) * 2)  # as cp -r may leave them
    runner = Runner(place, collect=True)
    runner.measure(needs)
    assert started == [] and [runner.heads(need) for need in needs] == [{}, None]
    Runner(place).measure(needs[:1])
    assert started == ["analyze"], "a checkpoint that has changed is measured again"


def test_a_training_that_has_ended_is_not_started_again(place, runs, started):
    """Begun by hand, or its evaluation was interrupted: fairseq would make one update more."""
    folder = runs[0].folder(place.out)
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(LOG + "done training in 3.0 seconds\n")
    result = Runner(place).run_all(runs[:1])[runs[0]]
    assert started == ["evaluate", "evaluate"]
    assert result["updates"] == 5 and len(result["commands"]) == 3
    folder = runs[1].folder(place.out)
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(LOG + "done training in 3.0 seconds\n" + LOG)
    started.clear()
    Runner(place).run_all(runs[1:2])
    assert started == ["train", "evaluate", "evaluate"], "it was started again, and stopped"


def test_a_run_that_another_process_holds_is_left_alone(place, runs, started, capsys):
    folder = runs[0].folder(place.out)
    folder.mkdir(parents=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert Runner(place).run_all(runs[:1]) == {}
    assert started == [] and "another run is at work" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "code"),
    [("kill -9 $$", r"137 \(SIGKILL\)"), ("exit 3", "3"), ("exit 255", "255")],
)
def test_what_a_failed_command_said_is_told(place, tmp_path, end, code):
    script = f"echo first; echo error: the reason; echo last; {end}"
    (tmp_path / "log").write_text("$ an earlier start\nerror: its reason\n")
    step = steps.Step("train", ("bash", "-c", script))
    with pytest.raises(UserError, match=f"train ended with exit code {code}: the reason"):
        Runner(place)._execute(step, tmp_path / "log")
