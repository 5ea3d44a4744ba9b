"""``scripts/check-gpu.sh``: what is done is kept, what fails is told, and time is shared."""

import json
import subprocess

import pytest

from benchmarks import gpu, gpu_jobs
from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import sole_use
from tests.reliability import runs

ROOT = gpu.ROOT
TESTED = """<testsuites><testsuite>
<testcase name="test_equals[float32-a]">
<properties><property name="value" value="1e-7"/></properties>
</testcase>
<testcase name="test_equals[float32-b]">
<properties><property name="value" value="3e-7"/></properties>
<failure message="too far&#10;apart"/></testcase>
<testcase time="0.5"/>
</testsuite></testsuites>"""
WRITES = "import sys; open(sys.argv[-1], 'w').write(%r)"
RESULT = '{"options": {"shape": "s", "precision": "p"}, "variants": {}, "batches": []}'
# A job of its own sort each; the first fails as long as there is no file "mended".
JOBS = {
    "fails": gpu.Job(
        "fails", ["-c", "import os; os.path.exists('mended') or exit('no ' + 'luck')"]
    ),
    "counts": gpu.Job("counts", ["-c", "open('count', 'a').write('x')"]),
    "always": gpu.Job("always", ["-c", "open('count', 'a').write('x')"], always=True),
    "tested": gpu.Job("tested", ["-c", WRITES % TESTED], "tests"),
    "large": gpu.Job("large", ["-c", f"exit({gpu.TOO_LARGE!r})"], "json"),
    "tidies": gpu.Job(
        "tidies",
        [
            "-c",
            "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt:\n " + WRITES % TESTED,
        ],
        "tests",
    ),
    "sleeps": gpu.Job("sleeps", ["-c", "import time; time.sleep(60)"]),
}


@pytest.fixture
def check(monkeypatch, tmp_path):
    """Run the command with chosen jobs, a part each, from a folder of its own."""
    monkeypatch.setattr(gpu, "ROOT", tmp_path)

    def run(*names, minutes="1", device="cpu", more=()):
        # A job that leaves JSON is one of the speeds.
        parts = {"speed" if name == "falls back" else name: [JOBS[name]] for name in names}
        monkeypatch.setattr(gpu, "PARTS", {part: (part.title(), 1) for part in parts})
        monkeypatch.setattr(gpu, "jobs_for", lambda *args: parts)
        words = ["--device", device, "--minutes", minutes, "--out", str(tmp_path / "out"), *more]
        code = gpu.main(words)
        state = json.loads((tmp_path / "out" / "report.json").read_text())
        return code, {key.split(": ")[1]: row for key, row in state["jobs"].items()}

    return run


def test_what_is_done_is_kept_and_what_failed_is_tried_again(check, tmp_path, capsys):
    code, jobs = check("fails", "counts")
    assert code == 1
    assert {name: row["status"] for name, row in jobs.items()} == {
        "fails": "failed",
        "counts": "done",
    }
    printed = capsys.readouterr().out
    assert printed.strip() == (tmp_path / "out" / "report.md").read_text().strip()
    assert "**fails failed**" in printed and "no luck" in printed
    (tmp_path / "mended").touch()
    code, jobs = check("fails", "counts")
    assert code == 0 and jobs["fails"]["status"] == "done"
    assert (tmp_path / "count").read_text() == "x"
    assert "failed" not in capsys.readouterr().out


@pytest.mark.integration
def test_a_job_without_end_leaves_time_for_the_others(check, capsys):
    code, jobs = check("sleeps", "counts", minutes="0.1")
    assert code == 0
    assert jobs["sleeps"]["status"] == "out of time"
    assert jobs["counts"]["status"] == "done"
    assert "Stopped before the end, for time: sleeps." in capsys.readouterr().out


def test_parts_can_be_chosen(check):
    assert list(check("counts", "always", more=["--parts", "always"])[1]) == ["always"]
    with pytest.raises(UserError, match="--parts speed: unknown 'speed'; choose from counts, alwa"):
        check("counts", "always", more=["--parts", "speed"])


@pytest.mark.parametrize(
    "said",
    [
        "routing runs uncompiled, and slower: torch.compile failed",
        "W1122 16:03:24.180000 1 torch/_dynamo/convert_frame.py:1] [0/8] torch._dynamo hit "
        "config.recompile_limit (8)",
    ],
)
def test_what_a_job_did_without_is_in_the_report(check, capsys, monkeypatch, said):
    script = f"print({said!r}); {WRITES % RESULT}"
    monkeypatch.setitem(JOBS, "falls back", gpu.Job("falls back", ["-c", script], "json"))
    code, _ = check("falls back")
    assert code == 0
    printed = capsys.readouterr().out
    assert "**falls back did without**" in printed and said in printed


def test_what_tells_of_other_jobs_is_done_every_time(check, tmp_path):
    check("always")
    check("always")
    assert (tmp_path / "count").read_text() == "xx"


def test_a_failure_is_not_repeated_in_the_same_run(check, monkeypatch):
    calls = []
    do = gpu.Check._do
    monkeypatch.setattr(gpu.Check, "_do", lambda *args: calls.append(args[1].name) or do(*args))
    check("fails")
    assert calls == ["fails"]
    check("fails")
    assert calls == ["fails", "fails"]


def test_a_folder_has_one_check_at_a_time(check, tmp_path):
    with sole_use(tmp_path / "out"), pytest.raises(UserError, match="another run is at work in"):
        check("counts")
    assert check("counts")[0] == 0


@pytest.mark.parametrize("content", ["{}", "[", "[]", '{"jobs": {}}'])
def test_another_file_of_that_name_is_refused(check, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text(content)
    with pytest.raises(UserError, match="report.json: .*(remove it|name another folder)"):
        check("counts")


def test_a_batch_that_does_not_fit_is_no_failure(check, capsys):
    code, _ = check("large")
    assert code == 0
    assert "Does not fit into the memory: large." in capsys.readouterr().out


def test_a_study_without_data_is_no_failure(check, capsys, monkeypatch, tmp_path):
    """What a download says that cannot be; once there are data the study has a row of its own."""
    assert f'"{gpu.NO_DATA} $name' in (ROOT / "data-prep/files.sh").read_text()
    script = (
        f"print({f'error: {gpu.NO_DATA} x (http://nowhere)'!r}); exit(9 * 'a line of the table\\n')"
    )
    monkeypatch.setitem(JOBS, "study", gpu.Job("study", ["-c", script], goes_on=True))
    code, jobs = check("study")
    assert code == 0 and jobs["study"]["status"] == "no data"
    printed = capsys.readouterr().out
    assert "**study not tried: no data**" in printed and "http://nowhere" in printed
    assert "a line of the table" not in printed
    row = {"status": "out of time", "seconds": 1, "result": None, "said": ""}
    monkeypatch.setattr(gpu.Check, "_do", lambda *args: row)
    assert check("study")[1]["study"]["status"] == "out of time"


def test_the_study_takes_data_from_elsewhere(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(gpu, "jobs_for", lambda *args: made.append(args) or {})
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert gpu.main(["--device", "cpu", "--out", str(tmp_path / "out"), "--data", "corpora"]) == 0
    assert made == [("cpu", tmp_path / "out", tmp_path / "corpora")]
    for part in ("study", "table"):
        (job,) = gpu_jobs.jobs_for("cuda", tmp_path, tmp_path / "corpora")[part]
        assert job.command[-2:] == ["--data", str(tmp_path / "corpora")]


def test_what_is_not_tried_is_named(check, capsys):
    check("counts", "tested", minutes="0.0001")
    assert capsys.readouterr().out.count("Not tried yet: ") == 2


def test_cases_are_counted_and_the_largest_measure_is_told(check, capsys):
    check("tested")
    printed = capsys.readouterr().out
    assert "| equals | 2 | 1 | value float32 3e-07 |" in printed
    assert "- equals[float32-b]: too far apart" in printed


def test_another_device_takes_another_folder(check, tmp_path):
    check("counts")
    path = tmp_path / "out" / "report.json"
    state = json.loads(path.read_text())
    state["machine"] |= {"device": "cuda", "gpu": "Some GPU"}
    path.write_text(json.dumps(state))
    with pytest.raises(UserError, match=r"report of another device \(Some GPU\); name another"):
        check("counts")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "--minutes 0: must be more than 0"),
        (["--minutes", "nan"], "--minutes nan: must be more than 0"),
        (["--device", "tpu"], "--device tpu: choose cpu or cuda"),
        (["--fast"], "unrecognized arguments: --fast; see diverse-mha check-gpu --help"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        gpu.main(options)


def test_without_a_gpu_one_line_says_so(monkeypatch):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="--device cuda: torch finds no GPU here"):
        gpu.main([])


def test_every_job_is_one_that_can_start(tmp_path):
    """Tests that exist, and options that the benchmarks take."""
    from benchmarks import __main__ as training
    from benchmarks import decoding
    from benchmarks.arguments import check_models
    from benchmarks.variants import VARIANTS

    assert set(gpu_jobs.ARCHITECTURES) == set(runs.RUNS)
    counts = []
    for device in ("cpu", "cuda"):
        parts = gpu.jobs_for(device, tmp_path)
        assert list(parts) == list(gpu.PARTS)
        jobs = [job for part in parts.values() for job in part]
        counts.append(len(jobs))
        for job in jobs:
            module, words = job.command[1], job.command[2:]
            words = ["cpu" if word == "cuda" else word for word in words]
            words = ["bf16" if word == "fp16" else word for word in words]
            if module == "benchmarks":
                training.check_options(training.build_parser().parse_args(words))
            elif module == "benchmarks.decoding":
                check_models(decoding.build_parser().parse_args(words), VARIANTS)
            elif module == "pytest":
                for word in filter(lambda word: word.startswith("tests/"), words):
                    file, _, test = word.partition("::")
                    assert f"def {test.partition('[')[0]}" in (ROOT / file).read_text()
    assert counts[0] < counts[1]


def _rehearse(out, *words):
    command = ["bash", ROOT / "scripts/check-gpu.sh", "--device", "cpu", "--out", out, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (out / "report.md").read_text().strip()
    assert [line for line in done.stdout.splitlines() if line.startswith("### ")] == [
        f"### {number}. {title}" for number, (title, _) in enumerate(gpu.PARTS.values(), 1)
    ]
    assert str(out) not in done.stdout and str(ROOT) not in done.stdout
    found = json.loads((out / "report.json").read_text())["jobs"]
    return {key: row["status"] for key, row in found.items()}


@pytest.mark.system
def test_a_whole_rehearsal_is_complete(tmp_path):
    found = _rehearse(tmp_path / "out", "--minutes", "60")
    jobs = gpu.jobs_for("cpu", tmp_path)
    assert found == {f"{part}: {job.name}": "done" for part, of in jobs.items() for job in of}
