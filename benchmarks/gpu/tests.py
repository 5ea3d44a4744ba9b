"""The tests marked ``gpu``: a finding a test, as soon as it has ended."""

import importlib.util
import os

import pytest

from benchmarks.gpu.findings import put
from benchmarks.gpu.plan import Setting

RESUMED = "test_trainings.py::test_a_resumed_run_is_an_uninterrupted_one_bit_for_bit[{}]"


class _Reporter:
    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" or report.outcome != "passed":
            why = str(report.longrepr)[-300:] if report.outcome == "failed" else ""
            put("test", report.nodeid.rpartition("::")[2], outcome=report.outcome, why=why,
                measured=dict(report.user_properties))  # fmt: skip


def kernel(setting: Setting) -> None:
    """CODA's kernel in every precision, number of heads and mask."""
    _run(setting, "test_kernel.py", small="bfloat16-8")


def operations(setting: Setting) -> None:
    """Operations, models and waits of the host."""
    names = ("test_operations.py", "test_models.py", "test_steps.py")
    _run(setting, *names, small="bfloat16 and (cascade or token)")


def resume(setting: Setting) -> None:
    """A run of CODA in two parts beside one in one part."""
    _run(setting, RESUMED.format("transformer_coda"))


def _run(setting: Setting, *names: str, small: str = "") -> None:
    """Run tests of ``tests/gpu``, in a rehearsal only the ones that match ``small``."""
    os.environ["DIVERSE_MHA_TEST_DEVICE"] = setting.device.type
    words = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "--tb=short", "-k", small]
    if not setting.small:
        words = [*words[:-2], *(["-n8"] if importlib.util.find_spec("xdist") else [])]
    code = pytest.main([*words, *(f"tests/gpu/{n}" for n in names)], plugins=[_Reporter()])
    if code > 1:  # 1: a test failed, which is a finding
        raise SystemExit(int(code))
