"""The runner of experiments, with a stand-in for its commands."""

import fcntl
import os
from dataclasses import replace

import pytest

from diverse_mha.common.errors import UserError
from experiments.papers import Experiment
from experiments.runner import Runner, check_ended, side_by_side, start_logged
from experiments.runs import Need, Step, plan
from experiments.scales import CORPORA
from tests.experiments.conftest import DONE, LOG, Ended


def test_finished_runs_are_skipped_and_their_results_are_complete(place, runs, start, capsys):
    first = Runner(place, start=start).run_all(runs[:1])
    assert start.names == ["run"]
    again = Runner(place, start=start).run_all(runs[:1])
    assert start.names == ["run"] and again == first
    assert "(already done)" in capsys.readouterr().out
    result = first[runs[0]]
    assert result["settings"]["model"]["decoder_layers"] == 2 and result["seed"] == 1
    assert result["versions"]["torch"]
    assert result["scores"]["test"]["perplexity"] == 12.5
    (command,) = result["commands"]
    assert command.startswith("bash scripts/run.sh demo_lm ")


def test_averaged_checkpoints_are_removed_when_the_run_is_finished(place, monkeypatch, capsys):
    recipe = replace(CORPORA["multi30k"]["small"], settings={"scoring.average": 10})
    monkeypatch.setitem(CORPORA["multi30k"], "small", recipe)
    run = plan(Experiment("multi30k"), "small")
    data = run.data(place)
    data.mkdir(parents=True)
    (data / "dict.de.txt").write_text("a 1\n")
    folder = run.folder(place.out)
    names = [f"checkpoint_{n}_{500 * n}.pt" for n in range(3, 13)]

    def start(step, log, jobs):
        assert "scoring.average=10" in step.words
        (log.parent / "train.log").write_text(LOG + DONE)
        for name in [*names, "checkpoint_last.pt", "checkpoint_best.pt", "averaged.pt"]:
            (folder / name).touch()
        return Ended()

    assert list(Runner(place, start=start).run_all([run])) == [run], capsys.readouterr().out
    left = sorted(path.name for path in folder.glob("*.pt"))
    assert left == ["averaged.pt", "checkpoint_best.pt", "checkpoint_last.pt"]


def test_collect_trains_nothing(place, runs, start, capsys):
    Runner(place, start=start).run_all(runs[:1])
    found = Runner(place, collect=True, start=start).run_all(runs)
    assert list(found) == runs[:1] and start.names == ["run"]
    assert "1 of 4 runs are finished" in capsys.readouterr().out


def test_collect_uses_existing_measurements_and_makes_no_new_measurements(place, runs, start):
    needs = [Need(run, {"measures": "jsd"}) for run in runs[:2]]
    there, checkpoint = needs[0].file(place), runs[0].model(place)
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    checkpoint.touch()
    os.utime(checkpoint, (there.stat().st_mtime + 60,) * 2)  # as after cp -r
    runner = Runner(place, collect=True, start=start)
    runner.measure(needs)
    assert start.names == [] and [runner.heads(need) for need in needs] == [{}, None]
    Runner(place, start=start).measure(needs[:1])
    assert start.names == ["analyze"], "a checkpoint that has changed is measured again"


def test_a_larger_measurement_counts_as_well(place, runs, start):
    larger = {"measures": "svcca,jsd"}
    need = Need(runs[0], {"measures": "jsd"}, larger=larger)
    there = Need(runs[0], larger).file(place)
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    runner = Runner(place, start=start)
    runner.measure([need])
    assert start.names == [] and runner.heads(need) == {}
    need.file(place).write_text('{"own": 1}')
    assert Runner(place, start=start).heads(need) == {"own": 1}
    os.utime(there, (0, 0))
    need.file(place).unlink()
    runs[0].model(place).touch()
    assert Runner(place, start=start).heads(need) is None, "older than the checkpoint"


def test_measuring_a_run_without_checkpoint_tells_how_to_train_it_again(place, runs, start, capsys):
    runs[0].folder(place.out).mkdir(parents=True)
    Runner(place, start=start).measure([Need(runs[0], {"measures": "jsd"})])
    (line,) = capsys.readouterr().out.splitlines()
    assert f"{runs[0].model(place)}: is missing" in line and "rename the folder" in line
    assert start.names == []


def test_a_run_locked_by_another_process_is_skipped(place, runs, start, capsys):
    folder = runs[0].folder(place.out)
    folder.mkdir(parents=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert Runner(place, start=start).run_all(runs[:1]) == {}
    assert start.names == [] and "another run is at work" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "code"),
    [("kill -9 $$", r"137 \(SIGKILL\)"), ("exit 3", "3"), ("exit 255", "255")],
)
def test_the_error_of_a_failed_command_is_reported(tmp_path, end, code):
    script = f"echo first; echo error: the reason; echo last; {end}"
    log = tmp_path / "log"
    log.write_text("$ an earlier start\nerror: its reason\n")
    step = Step("train", ("bash", "-c", script))

    def task():
        command = start_logged(step, log)
        yield command
        check_ended(step, command, log)

    with pytest.raises(UserError, match=f"train ended with exit code {code}: the reason"):
        side_by_side([task()], 1)


def test_half_precision_without_a_gpu_is_refused_before_the_corpus_is_prepared(
    place, start, capsys, monkeypatch
):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    run = plan(Experiment("wmt14_en_de"), "paper")
    assert Runner(place, start=start).run_all([run]) == {} and start.names == []
    assert "common.fp16 needs a GPU; give --no-bf16" in capsys.readouterr().out
