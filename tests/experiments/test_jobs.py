"""Tasks side by side: how many at a time, what they show, failures, signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import Interrupted
from experiments import terminal
from experiments.experiments import Experiment
from experiments.plan import plan
from experiments.process import Waiting, side_by_side, start_logged
from experiments.runner import Runner
from experiments.steps import Place, data_folder

LOG = '{"epoch": 1, "ups": "2.0", "num_updates": "5"}\n' * 2


def wait_for(*paths, command=None, seconds=20):
    deadline = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"none of {paths}"
        yield Waiting(command, "[1/1] name: ", "waiting")


def test_two_run_at_a_time_each_in_a_place_of_its_own(tmp_path):
    def meet(name, other, slot):
        (tmp_path / name).write_text(str(slot))
        yield from wait_for(tmp_path / other)

    # The first two wait for each other; the third finds a place only when one of them is gone.
    pairs = (("a", "b"), ("b", "a"), ("c", "a"))
    side_by_side([partial(meet, *pair) for pair in pairs], 2)
    slots = [(tmp_path / name).read_text() for name in "abc"]
    assert sorted(slots[:2]) == ["0", "1"] and slots[2] in "01"


def test_one_line_shows_how_far_all_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(terminal, "can_replace", lambda: True)

    def work(name, slot):
        yield Waiting(None, f"[{name}/2] run: ", f"update {name}")

    side_by_side([partial(work, 1)], 1)
    side_by_side([partial(work, n) for n in (1, 2)], 2)
    terminal.say("a line that stays")
    said = capsys.readouterr()
    shown = [line for line in said.err.split("\r\033[K") if line]
    assert shown == ["[1/2] run: update 1", "[1/2] update 1   [2/2] update 2"]
    assert said.out == "a line that stays\n"


class MistakeOfOurs(Exception):
    """What no task expects."""


def state(process: str) -> str:
    """Return the letter of a process's state, or nothing if there is none of that number."""
    if shutil.which("ps"):
        command = ["ps", "-o", "stat=", "-p", process]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()[:1]
    try:  # small containers have no ps
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("raised", [Interrupted, MistakeOfOurs])
def test_a_signal_and_a_mistake_end_every_command_and_its_children(tmp_path, raised, jobs):
    names = "ab" if jobs > 1 else "a"
    let_go = []

    def work(name, slot):
        script = f"cd {tmp_path}; sleep 60 & echo $! > {name}.new; mv {name}.new {name}; sleep 60"
        command = start_logged(["bash", "-c", script], tmp_path / f"{name}.log", {})
        try:
            if name == names[-1]:
                others = [tmp_path / other for other in names]
                yield from wait_for(*others, command=command)
                if raised is MistakeOfOurs:
                    yield Waiting(command, name, "")
                    raise MistakeOfOurs
                os.kill(os.getpid(), signal.SIGTERM)
            while True:
                yield Waiting(command, name, "")
        finally:
            let_go.append(name)

    start = time.monotonic()
    tasks = [partial(work, name) for name in names]
    with pytest.raises(raised) as stopped:
        side_by_side([*tasks, *[partial(work, "never")] * (jobs == 1)], jobs)
    if raised is Interrupted:
        assert stopped.value.number == signal.SIGTERM
    assert time.monotonic() - start < 50 and sorted(let_go) == list(names)
    for name in names:
        child, until = (tmp_path / name).read_text().strip(), time.monotonic() + 10
        while state(child) not in ("", "Z") and time.monotonic() < until:
            time.sleep(0.05)  # a busy machine takes a moment to end what was killed
        assert state(child) in ("", "Z")  # gone or dead
    assert not (tmp_path / "never").exists()


@pytest.fixture
def place(tmp_path):
    return Place(out=tmp_path / "out", data=tmp_path / "data")


@pytest.fixture
def runs(place):
    methods = ("baseline", "drophead", "hsic", "orthogonality")
    found = [plan(Experiment("ptb", method=method), "smoke") for method in methods]
    data = data_folder(found[0], place)
    data.mkdir(parents=True)
    (data / "dict.txt").write_text("a 1\n")
    return found


def test_one_failure_leaves_the_others_and_finished_runs_are_not_run_again(
    place, runs, monkeypatch, capfd
):
    started = place.out / "started"
    started.mkdir(parents=True)

    def execute(self, step, log, share):
        yield SimpleNamespace(seconds=1.0)
        if step.name == "train":
            with open(started / log.parent.name, "a") as file:
                file.write(share["OMP_NUM_THREADS"] + "\n")
            if "drophead" in str(log):
                raise UserError("train ended with exit code 1: why")
            (log.parent / "train.log").write_text(LOG)
        else:
            (log.parent / "test.json").write_text(json.dumps({"perplexity": 12.5}))

    monkeypatch.setattr(Runner, "_execute", execute)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = Runner(place, jobs=2, gpus=0).run_all(runs)
    assert set(found) == {runs[0], runs[2], runs[3]}
    said = capfd.readouterr().out.splitlines()
    assert len(said) == 4 and all(line.startswith("[") for line in said)
    assert f"[2/4] {runs[1].name}: FAILED: train ended with exit code 1: why" in said
    assert any(line.startswith(f"[3/4] {runs[2].name}: test perplexity 12.50") for line in said)
    assert {result["hardware"]["threads"] for result in found.values()} == {
        str(max(1, len(os.sched_getaffinity(0)) // 2))
    }
    again = Runner(place, jobs=2, gpus=0).run_all(runs)
    assert again == found
    assert sum("(already done)" in line for line in capfd.readouterr().out.splitlines()) == 3
    damaged = runs[0].folder(place.out) / "result.json"
    damaged.write_text("{")
    assert set(Runner(place, jobs=2, gpus=0).run_all(runs)) == {runs[2], runs[3]}
    assert f"{damaged}: not readable as JSON" in capfd.readouterr().out
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))
    tries = {path.name: path.read_text().split() for path in started.iterdir()}
    assert tries == {run.name: [threads] * (1 + 2 * (run == runs[1])) for run in runs}


@pytest.mark.parametrize(
    ("gpus", "jobs", "slot", "expected"),
    [
        (None, 2, 0, "4,6"),
        (None, 2, 1, "5"),
        (2, 2, 1, "5"),
        (1, 3, 2, "4"),  # several on one
        (None, 5, 4, "5"),
        (0, 2, 1, None),  # the CPU: not touched
    ],
)
def test_gpus_are_shared(place, monkeypatch, gpus, jobs, slot, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    share = Runner(place, jobs=jobs, gpus=gpus)._share(slot)
    assert share == {"OMP_NUM_THREADS": "1"} | (
        {"CUDA_VISIBLE_DEVICES": expected} if expected else {}
    )


@pytest.mark.integration
def test_ctrl_c_ends_a_command_with_several_jobs(tmp_path):
    """The whole command at the smoke scale; its trainings end with it, and it says how to go on."""
    words = ["reproduce", "yun2021", "table-7", "--scale", "smoke", "--jobs", "2"]
    words += ["--updates", "1000000", "--out", str(tmp_path)]
    root = Path(__file__).parents[2]
    command = subprocess.Popen(
        [sys.executable, "-m", "diverse_mha.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        start_new_session=True,
    )
    logs = []
    deadline = time.monotonic() + 200
    while len(logs) < 2 and command.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
        logs = [
            p for p in tmp_path.glob("smoke/runs/*/log.txt") if '"num_updates"' in p.read_text()
        ]
    os.killpg(command.pid, signal.SIGINT)
    out, err = command.communicate(timeout=60)
    assert len(logs) == 2, out + err
    assert command.returncode == 130 and "run the same command again to go on" in out
    sizes = [path.stat().st_size for path in logs]
    time.sleep(1)
    assert [path.stat().st_size for path in logs] == sizes, "the trainings have ended"
