"""Parallel tasks: their number, failures and signals."""

import os
import signal
import time

import pytest

from diverse_mha.common.processes import Interrupted
from experiments.runner import Runner, side_by_side, start_logged
from experiments.runs import Step
from tests.experiments.conftest import Stand
from tests.training.test_train import ends


def bash(script, log):
    return start_logged(Step("run", ("bash", "-c", script)), log)


def test_two_tasks_run_at_a_time_in_order(tmp_path):
    def meet(name, other):
        script = f"touch {name}; for i in $(seq 400); do [[ -e {other} ]] && exit; sleep 0.05; done"
        command = bash(f"cd {tmp_path}; {script}; touch failed", tmp_path / "log")
        yield command
        assert command.code == 0

    # Tasks a and b wait for each other, so both must run. Task c starts when one of them has ended.
    pairs = (("a", "b"), ("b", "a"), ("c", "a"))
    side_by_side((meet(*pair) for pair in pairs), 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "log"]


class UnexpectedError(Exception):
    """An error that no task handles."""


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("raised", [Interrupted, UnexpectedError])
def test_a_signal_or_an_error_ends_all_commands_and_their_children(tmp_path, raised, jobs):
    names = "ab" if jobs > 1 else "a"
    let_go = []

    def work(name):
        try:
            script = f"sleep 60 & echo $! > {name}.new; mv {name}.new {name}; sleep 60"
            yield bash(f"cd {tmp_path}; {script}", tmp_path / f"{name}.log")
        finally:
            let_go.append(name)

    def wait_and_fail():
        while not all((tmp_path / other).exists() for other in names):
            yield None
        if raised is UnexpectedError:
            raise UnexpectedError
        os.kill(os.getpid(), signal.SIGTERM)
        yield None

    start = time.monotonic()
    tasks = [work(name) for name in names]
    with pytest.raises(raised) as stopped:
        side_by_side([*tasks, wait_and_fail()], max(jobs, 2))
    if raised is Interrupted:
        assert stopped.value.number == signal.SIGTERM
    assert time.monotonic() - start < 50 and sorted(let_go) == list(names)
    for name in names:
        assert ends(int((tmp_path / name).read_text()))


def test_a_failed_run_stops_no_other_run_and_finished_runs_are_not_repeated(place, runs, capfd):
    start = Stand(failing="drophead")
    found = Runner(place, jobs=2, start=start).run_all(runs)
    assert set(found) == {runs[0], runs[2], runs[3]}
    printed = capfd.readouterr().out.splitlines()
    assert len(printed) == 8 and all(line.startswith("[") for line in printed)
    assert f"[2/4] {runs[1].name}: FAILED: run ended with exit code 1: why" in printed
    assert f"[3/4] {runs[2].name}: started; log: {runs[2].folder(place.out)}/log.txt" in printed
    assert any(line.startswith(f"[3/4] {runs[2].name}: test perplexity 12.50") for line in printed)
    again = Runner(place, jobs=2, start=start).run_all(runs)
    assert again == found
    assert sum("(already done)" in line for line in capfd.readouterr().out.splitlines()) == 3
    damaged = runs[0].folder(place.out) / "result.json"
    for text, message in (("{", "not readable as JSON"), ("[]", "has no scores"), ("{}", "has no")):
        damaged.write_text(text)
        assert set(Runner(place, jobs=2, start=start).run_all(runs)) == {runs[2], runs[3]}
        assert f"{damaged}: {message}" in capfd.readouterr().out
    tries = [name for _, name in start.started]
    assert {run.name: tries.count(run.name) for run in runs} == {
        run.name: 1 + 4 * (run == runs[1]) for run in runs
    }
