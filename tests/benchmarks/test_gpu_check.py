"""``scripts/check-gpu.sh``: findings at once, a report of whatever there is, and going on."""

import importlib
import json

from benchmarks.gpu import findings, report, tests
from benchmarks.gpu.plan import JOBS
from diverse_mha.common.places import ROOT

FOUND = [
    {"job": "facts", "what": "machine", "of": "a processor", "cores": 2},
    {"job": "facts", "what": "ended", "of": "", "seconds": 1.25, "code": 0},
    {"job": "kernel", "what": "test", "of": "test_a[x]", "outcome": "passed", "measured": {"v": 1}},
    {"job": "kernel", "what": "test", "of": "test_a[y]", "outcome": "failed", "measured": {"v": 2}},
    {"job": "bf16", "what": "build", "of": "coda", "error": "no memory"},
    {"job": "bf16", "what": "ms", "of": "stock", "forward": [1.0, 2.0]},
    {"job": "bf16", "what": "out of time", "of": "", "seconds": 9, "code": 0},
]


def test_a_report_has_whatever_was_found(tmp_path):
    file = tmp_path / "findings.jsonl"
    file.write_text("\n".join(map(json.dumps, FOUND)) + '\n{"job": "bf16", "wh')
    rows = findings.read(file)
    assert rows == FOUND
    page = report.format_report(rows)
    for line in (
        "| facts | the machine | ended | 1.25 |",
        "| kernel | CODA's kernel: is it right | interrupted |  |",
        "| bf16 | Base in bfloat16, small and large batches | out of time | 9 |",
        "| fp16 | Base in float16 | not begun |  |",
        "- bf16, build coda: no memory",
        "| test_a | 1 | 0 | 1 | 2 |",
        "| stock | 1, 2 |",
    ):
        assert line in page.splitlines(), line
    assert len(report.faults(rows)) == 2


def test_every_job_is_one_that_can_start():
    for _, _, work in JOBS.values():
        module, _, function = work.partition(".")
        assert callable(getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function))
    file, _, test = tests.RESUMED.partition("::")
    assert f"def {test.partition('[')[0]}" in (ROOT / "tests/gpu" / file).read_text()
