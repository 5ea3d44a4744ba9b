"""On a GPU that pretends: no step mixes devices, and none waits or starts more than is said."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(torch.version.cuda), reason="needs a torch without CUDA"),
]


def pretend(*words: str) -> str:
    """Run the command in a process of its own, which loads the card before torch."""
    command = [sys.executable, "-m", "tests.gpu.pretend", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_model_takes_a_step_with_every_term_on_one_device():
    told, *waits = pretend("check").splitlines()
    assert re.fullmatch(r"(\d+) of \1 steps; the host waits at:", told)
    # Whether there is padding, once a stack; and which positions are real, for HSIC's sample.
    files = sorted({place.partition(":")[0] for place in waits})
    assert files == ["methods/hsic.py", "models/decoder.py", "models/encoder.py"]


def test_without_a_method_and_with_the_output_term_a_step_takes_less_than_fairseqs():
    lines = pretend("count", "stock", "plain", "output", "all-three").splitlines()
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    for line in lines:
        assert "| {} | {} |".format(*line.split()[1:3]) in page, f"of another version: {line}"
    numbers = (map(int, line.replace(",", "").split()[1:]) for line in lines)
    forward, step, mebibytes = zip(*numbers, strict=True)
    assert 0 < forward[1] < step[1] < step[2] < step[0] < step[3]
    assert 0 < mebibytes[1] <= mebibytes[2] <= mebibytes[3] < mebibytes[0]
