"""``diverse-mha reproduce`` through the real commands: a table, sharing, and a run killed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from tests import warm
from tests.integration.conftest import ROOT

pytestmark = pytest.mark.integration

TABLE = ["yun2021", "table-7", "--scale", "smoke", "--updates", "30"]


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


def test_a_killed_run_resumes_with_the_same_numbers(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run = start(*TABLE, "--rows", "baseline", "--out", whole)
    said = run.communicate(timeout=300)[0]
    assert run.returncode == 0, said
    assert "mean nothing else" in said and "120.38" in said

    data = ["--data", whole / "smoke" / "data"]
    run = start(*TABLE, "--rows", "baseline", "--out", parts, *data, python=sys.executable)
    deadline = time.monotonic() + 240
    while not list(parts.glob("smoke/runs/*/checkpoint_last.pt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 128 + signal.SIGTERM and "run the same command again" in said
    assert not list(parts.glob("smoke/runs/*/result.json"))

    # Now with a second row, which shares nothing, and the first again in another table's place.
    run = start(*TABLE, "--rows", "baseline,drophead", "--out", parts, *data)
    said = run.communicate(timeout=300)[0]
    assert run.returncode == 0, said
    (a, folder_a), (b, folder_b) = result_of(whole), result_of(parts)
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
