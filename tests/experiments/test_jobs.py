"""Tasks side by side: how many at a time, failures, signals."""

import json
import os
import signal
import time
from functools import partial

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import Interrupted, end
from experiments.process import exit_code, pause, side_by_side, start_logged
from experiments.runner import Runner
from tests.experiments.conftest import LOG
from tests.training.test_train import ends


def wait_for(*paths, seconds=20):
    deadline = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"none of {paths}"
        pause(0.01)


def test_two_run_at_a_time_in_their_order(tmp_path):
    def meet(name, other):
        (tmp_path / name).touch()
        wait_for(tmp_path / other)

    # The first two wait for each other; the third begins only when one of them is gone.
    pairs = (("a", "b"), ("b", "a"), ("c", "a"))
    side_by_side([partial(meet, *pair) for pair in pairs], 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


class MistakeOfOurs(Exception):
    """What no task expects."""


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("raised", [Interrupted, MistakeOfOurs])
def test_a_signal_and_a_mistake_end_every_command_and_its_children(tmp_path, raised, jobs):
    names = "ab" if jobs > 1 else "a"
    let_go = []

    def work(name):
        script = f"cd {tmp_path}; sleep 60 & echo $! > {name}.new; mv {name}.new {name}; sleep 60"
        command = start_logged(["bash", "-c", script], tmp_path / f"{name}.log", {})
        try:
            if name == names[-1]:
                wait_for(*[tmp_path / other for other in names])
                if raised is MistakeOfOurs:
                    end([command])
                    raise MistakeOfOurs
                os.kill(os.getpid(), signal.SIGTERM)
            exit_code(command)
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
        assert ends(int((tmp_path / name).read_text()))
    assert not (tmp_path / "never").exists()


def test_one_failure_leaves_the_others_and_finished_runs_are_not_run_again(
    place, runs, monkeypatch, capfd
):
    started = place.out / "started"
    started.mkdir(parents=True)

    def execute(self, step, log):
        if step.name == "train":
            with open(started / log.parent.name, "a") as file:
                file.write("x\n")
            if "drophead" in str(log):
                raise UserError("train ended with exit code 1: why")
            (log.parent / "train.log").write_text(LOG)
        else:
            (log.parent / "test.json").write_text(json.dumps({"perplexity": 12.5}))

    monkeypatch.setattr(Runner, "_execute", execute)
    found = Runner(place, jobs=2).run_all(runs)
    assert set(found) == {runs[0], runs[2], runs[3]}
    said = capfd.readouterr().out.splitlines()
    assert len(said) == 8 and all(line.startswith("[") for line in said)
    assert f"[2/4] {runs[1].name}: FAILED: train ended with exit code 1: why" in said
    assert f"[3/4] {runs[2].name}: started; log: {runs[2].folder(place.out)}/log.txt" in said
    assert any(line.startswith(f"[3/4] {runs[2].name}: test perplexity 12.50") for line in said)
    again = Runner(place, jobs=2).run_all(runs)
    assert again == found
    assert sum("(already done)" in line for line in capfd.readouterr().out.splitlines()) == 3
    damaged = runs[0].folder(place.out) / "result.json"
    damaged.write_text("{")
    assert set(Runner(place, jobs=2).run_all(runs)) == {runs[2], runs[3]}
    assert f"{damaged}: not readable as JSON" in capfd.readouterr().out
    tries = {path.name: path.read_text().split() for path in started.iterdir()}
    assert tries == {run.name: ["x"] * (1 + 2 * (run == runs[1])) for run in runs}
