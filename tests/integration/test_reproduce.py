"""``diverse-mha reproduce`` runs, and resumes, real trainings."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from tests import warm
from tests.integration.conftest import ROOT, TABLE

pytestmark = pytest.mark.integration


def start(*words, python=None):
    server = warm.server()
    command = [python or server.python, "-m", "diverse_mha.cli", "reproduce", *map(str, words)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT)) | server.variables
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def result_of(out):
    (path,) = out.glob("smoke/runs/*baseline*/result.json")
    return json.loads(path.read_text()), path.parent


def test_a_terminated_run_resumes_and_ends_with_the_same_numbers(local_table, tmp_path):
    printed = (local_table / "log").read_text()
    assert "mean nothing else" in printed and "120.38" in printed

    arguments = [*TABLE, "--out", tmp_path, "--data", local_table / "smoke/data"]
    run = start(*arguments, python=sys.executable)
    deadline = time.monotonic() + 240
    while (
        not list(tmp_path.glob("smoke/runs/*/checkpoint_last.pt")) and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    printed = run.communicate(timeout=60)[0]
    assert run.returncode == 128 + signal.SIGTERM and "run the same command again" in printed
    assert not list(tmp_path.glob("smoke/runs/*/result.json"))

    run = start(*arguments)
    printed = run.communicate(timeout=300)[0]
    assert run.returncode == 0, printed
    (a, folder_a), (b, folder_b) = result_of(local_table), result_of(tmp_path)
    log = (folder_b / "log.txt").read_text()
    assert "Loaded checkpoint" in log and log.count("$ bash scripts/train.sh") == 2
    same = ("key", "name", "updates", "parameters", "valid_perplexity")
    assert {k: a[k] for k in same} == {k: b[k] for k in same} and a["updates"] == 30
    for split in ("valid", "test"):
        assert a["scores"][split]["loss_bits"] == b["scores"][split]["loss_bits"]
    states = [
        torch.load(folder / "checkpoint_best.pt", weights_only=False)["model"]
        for folder in (folder_a, folder_b)
    ]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
