"""``scripts/check-gpu.sh``: findings at once, a report of whatever there is, and going on."""

import importlib
import json
import signal
import subprocess
import time

import pytest

from benchmarks.gpu import command, findings, report, tests
from benchmarks.gpu.plan import JOBS
from diverse_mha.common.errors import UserError
from diverse_mha.common.places import ROOT

SCRIPT = ["bash", str(ROOT / "scripts/check-gpu.sh"), "--device", "cpu", "--output"]
FOUND = [
    {"job": "facts", "what": "machine", "of": "a processor", "cores": 2},
    {"job": "facts", "what": "ended", "of": "", "seconds": 1.25, "code": 0},
    {"job": "kernel", "what": "test", "of": "test_a[x]", "outcome": "passed", "measured": {"v": 1}},
    {"job": "kernel", "what": "test", "of": "test_a[y]", "outcome": "failed", "measured": {"v": 2}},
    {"job": "bf16", "what": "build", "of": "coda", "error": "no memory"},
    {"job": "bf16", "what": "ms", "of": "stock", "forward": [1.0, 2.0]},
    {"job": "bf16", "what": "out of time", "of": "", "seconds": 9, "code": 0},
]


def run(folder, *words):
    """Run the command in this process; return the exit code and the findings."""
    code = command.main(["--device", "cpu", "--output", str(folder), *words])
    return code, findings.read(folder / "findings-cpu.jsonl")


@pytest.fixture
def jobs(monkeypatch):
    """Let the command have these jobs, of which the processes know only the real ones."""
    monkeypatch.setattr(command, "LEAST_SECONDS", 0)
    return lambda **seconds: monkeypatch.setattr(
        command, "JOBS", {name: ("a job", limit, "") for name, limit in seconds.items()}
    )


def test_a_report_has_whatever_was_found(tmp_path):
    file = tmp_path / "findings.jsonl"
    file.write_text("\n".join(map(json.dumps, FOUND)) + '\n{"job": "bf16", "wh')
    rows = findings.read(file)
    assert rows == FOUND
    page = report.format_report(rows)
    for line in (
        "| facts | the machine and its ceilings | ended | 1.25 |",
        "| kernel | CODA's kernel: is it right | interrupted |  |",
        "| bf16 | Base in bfloat16, small and large batches | out of time | 9 |",
        "| fp16 | Base in float16 | not begun |  |",
        "- bf16, build coda: no memory",
        "| test_a | 1 | 0 | 1 | 2 |",
        "| stock | 1, 2 |",
    ):
        assert line in page.splitlines(), line
    assert len(report.faults(rows)) == 2


def test_the_latest_try_of_a_job_counts():
    ended = {"job": "bf16", "what": "ended", "of": "", "seconds": 7, "code": 0}
    built = {"job": "bf16", "what": "build", "of": "coda", "ms": 1}
    page = report.format_report([*FOUND, built, ended])
    assert "large batches | ended | 7 |" in page and "no memory" not in page


def test_every_job_is_one_that_can_start():
    for _, _, work in JOBS.values():
        module, _, function = work.partition(".")
        assert callable(getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function))
    file, _, test = tests.RESUMED.partition("::")
    assert f"def {test.partition('[')[0]}" in (ROOT / "tests/gpu" / file).read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "--minutes: 0 is not a number from 0.1 to 600"),
        (["--only", "speed"], "--only speed: unknown 'speed'; choose from facts, kernel"),
        (["--coda", "nowhere.py"], "--coda nowhere.py: no such file"),
        (["--fast"], "unrecognized arguments: --fast; see diverse-mha check-gpu --help"),
    ],
)
def test_impossible_options_are_refused(options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        run(tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_without_a_gpu_one_line_says_so(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="--device cuda: torch finds no GPU here"):
        command.main([])


@pytest.mark.integration
def test_a_job_that_fails_or_never_ends_costs_only_its_share(jobs, tmp_path, capfd):
    jobs(nonsense=60, facts=0.2)
    code, found = run(tmp_path)
    assert code == 1
    states = {row["job"]: row["what"] for row in found}
    assert states == {"nonsense": "ended", "facts": "out of time"}
    assert "nonsense, ended : " in (tmp_path / "report-cpu.md").read_text()
    assert "[2/2] facts: a job (0 s at most; " in capfd.readouterr().err
    # Again: what ended is skipped, what had no time is done.
    jobs(nonsense=60, facts=60)
    _, more = run(tmp_path)
    rows = more[len(found) :]
    assert {row["job"] for row in rows} == {"facts"} and rows[-1]["what"] == "ended"
    assert {row["what"] for row in rows} == {"machine", "ceilings", "ended"}
    assert run(tmp_path) == (1, more)


@pytest.mark.integration
def test_an_interrupted_check_leaves_a_report_and_goes_on(tmp_path):
    words = [*SCRIPT, str(tmp_path / "out"), "--minutes", "1", "--only", "facts,attention"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    file = tmp_path / "out/findings-cpu.jsonl"
    while not any(row["what"] == "ended" for row in findings.read(file)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    process.stderr.close()
    page = (tmp_path / "out/report-cpu.md").read_text()
    assert "ceilings" in page and "| facts | the machine and its ceilings | ended |" in page
    done = subprocess.run([*words[:-1], "attention"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "out/report-cpu.md").read_text() + "\n"
    assert "torch.bfloat16, padding, with cuDNN" in done.stdout and "ceilings" in done.stdout
