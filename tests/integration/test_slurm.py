"""Tables and trainings on a real Slurm, cancelled in the middle."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest
import torch

from tests.integration import slurm
from tests.integration.conftest import ROOT

pytestmark = [
    pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not() or "-"),
]
TABLE = ["yun2021", "table-7", "--scale", "smoke", "--rows", "baseline", "--updates", "30"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        pytest.skip("this machine's name has no address")
    folder = tmp_path_factory.mktemp("slurm")
    environment = slurm.start(folder) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    yield environment
    slurm.stop(folder)


def run(environment, *words, timeout=900):
    return subprocess.run(
        [*map(str, words)],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def wait(condition, seconds=600):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.integration
def test_a_cancelled_slurm_table_resumes_and_equals_the_local_one(cluster, tmp_path):
    reproduce = [sys.executable, "-m", "diverse_mha.cli", "reproduce", *TABLE]
    local, there = tmp_path / "local", tmp_path / "there"
    done = run(cluster, *reproduce, "--out", local)
    assert done.returncode == 0, done.stdout + done.stderr
    submit = [*reproduce, "--out", there, "--data", local / "smoke/data"]
    submit += ["--slurm", "partition=main,time=30,cpus_per_task=1"]
    done = run(cluster, *submit)
    assert done.returncode == 0 and "submitted, job " in done.stdout, done.stdout + done.stderr
    job = done.stdout.partition("submitted, job ")[2].partition(";")[0]
    wait(lambda: list(there.glob("smoke/runs/*/checkpoint_last.pt")))
    slurm.call(cluster, "scancel", job)
    wait(lambda: not slurm.call(cluster, "squeue", "--noheader"))
    assert not list(there.glob("smoke/runs/*/result.json"))
    done = run(cluster, *submit)
    assert "submitted, job " in done.stdout, done.stdout + done.stderr
    done = run(cluster, *submit)
    assert "running, job " in done.stdout or "pending, job " in done.stdout, done.stdout
    wait(lambda: not slurm.call(cluster, "squeue", "--noheader"))
    done = run(cluster, *submit)
    assert done.returncode == 0 and "(already done)" in done.stdout, done.stdout + done.stderr
    ours, theirs = (
        json.loads(next(out.glob("smoke/runs/*/result.json")).read_text()) for out in (there, local)
    )
    for split in ("valid", "test"):
        assert ours["scores"][split]["loss_bits"] == theirs["scores"][split]["loss_bits"]


@pytest.mark.system
def test_torchrun_and_srun_train_like_two_processes(cluster, tmp_path):
    words = ["--pairs", "500", "--merges", "200", "--out", tmp_path / "demo"]
    done = run({"DIVERSE_MHA_PYTHON": sys.executable}, "bash", "data-prep/prepare-demo.sh", *words)
    assert done.returncode == 0, done.stderr
    words = ["--config", "demo", f"task.data={tmp_path}/demo/bin", "optimization.max_update=4"]
    words += ["++common.cpu=true", "++optimization.update_freq=[2]"]
    module = ["-m", "diverse_mha.training.train"]
    starts = {
        "processes": [sys.executable, *module, "--processes", "2"],
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"],
        "srun": ["srun", "--ntasks", "2", "--cpus-per-task", "1", sys.executable, *module],
    }
    starts["torchrun"] += ["--standalone", *module]
    models = {}
    for name, start in starts.items():
        folder = tmp_path / name
        done = run(cluster, *start, *words, f"checkpoint.save_dir={folder}")
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        state = torch.load(folder / "checkpoint_last.pt", weights_only=False)
        models[name] = state["model"]
    for other in ("torchrun", "srun"):
        for key, value in models["processes"].items():
            assert torch.equal(value, models[other][key]), f"{other}: {key}"
