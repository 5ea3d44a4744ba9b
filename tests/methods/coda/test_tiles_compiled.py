"""The cascade's kernel compiles for GPUs, which needs none, and fits into their registers."""

import json
import os
import subprocess
import sys

import pytest

#: Bytes of shared memory that every card has for a program without asking for more.
SHARED = 48 * 1024
#: Bytes a thread may keep outside its registers: few enough to stay in the nearest cache.
OUTSIDE = 256


@pytest.mark.integration
@pytest.mark.parametrize("capability", ["80", "90"])
def test_every_pass_compiles_and_stays_in_the_registers(capability, tmp_path):
    pytest.importorskip("triton.backends.nvidia", reason="pip install triton")
    run = subprocess.run(
        [sys.executable, "-m", "tests.methods.coda.compiled", capability],
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(found) == 3 * 3 * 2
    for kernel in found:
        assert kernel["shared"] <= SHARED, kernel
        assert kernel["outside"] <= OUTSIDE, kernel
