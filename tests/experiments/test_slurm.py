"""Jobs that ``--slurm`` submits and results that it collects, with a stand-in for the queue."""

import pytest

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from experiments.runner import Runner
from experiments.slurm import SlurmRunner, queued_jobs, read_options


def test_missing_runs_are_submitted_and_finished_runs_are_collected(place, runs, start, capsys):
    Runner(place, start=start).run_all(runs[:1])
    states, given = {}, []

    def submit(tasks, options, folder):
        given.append([task.run for task in tasks])
        return [f"7{len(given)}_{number}" for number in range(len(tasks))]

    def again(**more):
        runner = SlurmRunner(place, queue=lambda: states, submit=submit, **more)
        return runner.run_all(runs), runner.queued

    found, queued = again()
    assert list(found) == runs[:1] and queued == 3 and given == [runs[1:]]
    message = capsys.readouterr().out
    assert f"[2/4] {runs[1].name}: submitted, job 71_0; log: " in message
    states |= {"71_0": "RUNNING", "71_2": "PENDING"}  # 71_1 was cancelled
    found, queued = again()
    assert list(found) == runs[:1] and queued == 3 and given[1:] == [[runs[2]]]
    assert f"[2/4] {runs[1].name}: running, job 71_0\n" in capsys.readouterr().out
    states.clear()
    for run in runs[1:]:
        write_json(run.folder(place.out) / "result.json", found[runs[0]])
    found, queued = again()
    assert list(found) == runs and queued == 0 and len(given) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("partition", "--slurm partition: write options as partition=gpu,time=2-00:00:00"),
        ("partition=gpu", "--slurm partition=gpu: has no time limit; add one, as in time=2-"),
        ("time=2", "--slurm time=2: is so short that a job may end before it can be resubmitted"),
    ],
)
def test_wrong_options_are_refused(options, message, tmp_path):
    arguments = ["reproduce", "yun2021", "7", "--scale", "smoke", "--slurm", options]
    with pytest.raises(UserError, match=message):
        cli.run([*arguments, "--out", str(tmp_path / "out")])
    assert read_options("gpus_per_node=8,time=2-00:00:00") == {
        "gpus_per_node": 8,
        "time": "2-00:00:00",
    }


@pytest.mark.parametrize("time", ["4", "4:59", "0:30", "00:04:59", "0-0:4", "0-00:04:59"])
def test_time_limits_under_five_minutes_are_refused(time):
    with pytest.raises(UserError, match=f"^--slurm time={time}: is so short"):
        read_options(f"time={time}")


@pytest.mark.parametrize("time", ["5", "5:00", "1:00:00", "00:05:00", "1-0", "0-1", "0", "odd"])
def test_other_time_limits_are_left_to_sbatch(time):
    assert str(read_options(f"time={time}")["time"]) == time


def test_a_machine_without_slurm_is_reported_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="--slurm: squeue is not installed here; run the command"):
        queued_jobs()


def test_options_without_effect_are_refused(tmp_path):
    arguments = ["reproduce", "yun2021", "7", "--scale", "smoke", "--out", str(tmp_path)]
    with pytest.raises(UserError, match="--slurm a=1,time=9 has no effect with --dry-run"):
        cli.run([*arguments, "--slurm", "a=1,time=9", "--dry-run"])
    with pytest.raises(UserError, match="--rehearse: is for --scale paper, not smoke"):
        cli.run([*arguments, "--rehearse"])
