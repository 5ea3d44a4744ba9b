"""Wrong inputs to the shell scripts themselves, as a user would type them."""

import os
import subprocess
import sys

import pytest

from diverse_mha.common.places import ROOT
from tests.bad_input.harness import Row, tree

NOWHERE = "DIVERSE_MHA_PYTHON=/nowhere/python"
ROWS = [
    Row("python-nowhere", f"{NOWHERE} bash scripts/evaluate.sh best.pt bin", NOWHERE, "unset it"),
    Row("python-a-folder", "DIVERSE_MHA_PYTHON=/tmp bash scripts/train.sh bin", "=/tmp", "unset"),
    Row("python-no-python", "DIVERSE_MHA_PYTHON=/bin/false bash scripts/lint.sh", "/bin/false",
        "torch and fairseq"),
    Row("quickstart-option", "bash scripts/quickstart.sh --updates 5", "--updates", "--help"),
    Row("quickstart-updates", "QUICKSTART_UPDATES=many bash scripts/quickstart.sh",
        "QUICKSTART_UPDATES=many", "whole number from 1"),
    Row("setup-option", "bash scripts/setup.sh --force", "--force", "--help"),
    Row("prepare", "bash data-prep/prepare-demo.sh --out save --pairs x", "--pairs: x", "from 20"),
    Row("full-disk-average", "ulimit -f 1; $DIVERSE_MHA_PYTHON -m diverse_mha.cli average best.pt "
        "-o x.pt", "x.pt", "ulimit -f"),
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_scripts_refuse_in_one_line(row, world):
    python = {"DIVERSE_MHA_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = row.command.replace("scripts/", f"{ROOT}/scripts/")
    command = command.replace("data-prep/", f"{ROOT}/data-prep/")
    before = tree(world)
    done = subprocess.run(
        ["bash", "-c", command], cwd=world, env={**os.environ, **python}, capture_output=True,
        text=True,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert done.returncode not in (0, 127) and len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert row.culprit in lines[0] and row.cure in lines[0], lines[0]
    assert tree(world) == before
