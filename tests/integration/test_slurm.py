"""Tables and trainings on a real Slurm; jobs are cancelled or pre-empted while they train."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest
import torch

from tests import warm
from tests.integration import slurm
from tests.integration.conftest import ROOT, TABLE

pytestmark = [
    pytest.mark.skipif(bool(slurm.why_not()), reason=slurm.why_not() or "-"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        pytest.skip("the host name of this machine does not resolve")
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


def wait(condition, seconds=1200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long
@pytest.mark.integration
def test_a_cancelled_slurm_job_resumes_and_gives_the_scores_of_a_local_run(
    cluster, local_table, tmp_path
):
    """Slurm jobs run in new Python processes.

    The commands that submit the jobs run on the warm server.
    """
    out, cluster = tmp_path / "out", cluster | warm.server().variables
    submit = [warm.server().python, "-m", "diverse_mha.cli", "reproduce", *TABLE, "--out", out]
    submit += ["--data", local_table / "smoke/data"]
    submit += ["--slurm", "partition=main,time=30,cpus_per_task=1"]
    done = run(cluster, *submit)
    assert done.returncode == 0 and "submitted, job " in done.stdout, done.stdout + done.stderr
    job = done.stdout.partition("submitted, job ")[2].partition(";")[0]
    wait(lambda: list(out.glob("smoke/runs/*/checkpoint_last.pt")))
    slurm.call(cluster, "scancel", job)
    wait(lambda: not slurm.call(cluster, "squeue", "--noheader"))
    assert not list(out.glob("smoke/runs/*/result.json"))
    done = run(cluster, *submit)
    assert "submitted, job " in done.stdout, done.stdout + done.stderr
    done = run(cluster, *submit)
    assert "running, job " in done.stdout or "pending, job " in done.stdout, done.stdout
    wait(lambda: not slurm.call(cluster, "squeue", "--noheader"))
    done = run(cluster, *submit)
    assert done.returncode == 0 and "(already done)" in done.stdout, done.stdout + done.stderr
    ours, theirs = (
        json.loads(next(folder.glob("smoke/runs/*/result.json")).read_text())
        for folder in (out, local_table)
    )
    for split in ("valid", "test"):
        assert ours["scores"][split]["loss_bits"] == theirs["scores"][split]["loss_bits"]


@pytest.mark.system
def test_a_preempted_slurm_job_is_queued_again_and_resumes(cluster, tmp_path):
    reproduce = [sys.executable, "-m", "diverse_mha.cli", "reproduce", *TABLE[:-1], "60"]
    submit = [*reproduce, "--out", tmp_path, "--slurm", "partition=main,time=30,cpus_per_task=1"]
    done = run(cluster, *submit)
    job = done.stdout.partition("submitted, job ")[2].partition(";")[0]
    wait(lambda: list(tmp_path.glob("smoke/runs/*/checkpoint_last.pt")))
    slurm.call(cluster, "scancel", "--signal=USR2", job)  # USR2 announces a pre-emption
    wait(lambda: not slurm.call(cluster, "squeue", "--noheader"))
    done = run(cluster, *submit)
    assert done.returncode == 0 and "(already done)" in done.stdout, done.stdout + done.stderr
    (folder,) = tmp_path.glob("smoke/runs/*")
    log = (folder / "log.txt").read_text()
    assert log.count("$ bash scripts/run.sh") == 2 and "Loaded checkpoint" in log
    assert json.loads((folder / "result.json").read_text())["updates"] == 60


@pytest.mark.system
def test_torchrun_srun_and_two_processes_give_the_same_weights(cluster, tmp_path):
    arguments = ["--pairs", "500", "--merges", "200", "--out", tmp_path / "demo"]
    done = run(
        {"DIVERSE_MHA_PYTHON": sys.executable}, "bash", "data-prep/prepare-demo.sh", *arguments
    )
    assert done.returncode == 0, done.stderr
    arguments = ["--config", "demo", f"task.data={tmp_path}/demo/bin", "optimization.max_update=4"]
    arguments += ["++common.cpu=true", "++optimization.update_freq=[2]"]
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
        done = run(cluster, *start, *arguments, f"checkpoint.save_dir={folder}")
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        state = torch.load(folder / "checkpoint_last.pt", weights_only=False)
        models[name] = state["model"]
    for other in ("torchrun", "srun"):
        for key, value in models["processes"].items():
            assert torch.equal(value, models[other][key]), f"{other}: {key}"
