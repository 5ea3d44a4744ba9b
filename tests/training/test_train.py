"""The launcher of trainings: its commands, errors and workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT
from diverse_mha.common.processes import Interrupted, stoppable
from diverse_mha.training import train, worker


@pytest.fixture
def data(tmp_path):
    """Folder that looks like binarised data."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dict.de.txt").write_text("a 1\n")
    return folder


@pytest.fixture
def recipe(data, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(f"task: {{data: {data}}}\ncommon: {{cpu: true}}\n")
    return path


def only_command(*words, gpus=0, port=1):
    """Return the command of fairseq-train in one process."""
    job = train.parse([*map(str, words)])
    ((settings, environment),) = train.workers_of(job, gpus=gpus, port=port)
    assert environment == {}
    return train._fairseq_train(job, settings)


def option(command, name):
    """Return the value after an option in a command line."""
    return command[command.index(name) + 1]


def test_options_of_a_training_without_recipe_are_passed_on_to_fairseq(data):
    command = only_command(data, "--arch", "x", "--lr", "1e-3")
    assert command[:3] == [sys.executable, "-m", "diverse_mha.training.fairseq_train"]
    assert command[3:8] == [str(data), "--arch", "x", "--lr", "1e-3"]
    assert option(command, "--user-dir") == str(train.USER_DIR)
    assert "--distributed-world-size" not in command
    assert "--user-dir" not in only_command(data, "--user-dir=other")


def test_a_cpu_training_has_one_process_by_default(data, recipe):
    """By default fairseq counts GPUs, even with --cpu."""
    for words in ([str(data), "--cpu"], ["--config", str(recipe)]):
        ((settings, _),) = train.workers_of(train.parse(words), gpus=4, port=1)
        assert settings == {"distributed_world_size": 1}
        assert train.parse(["--processes", "3", *words]).processes == 3


def test_option_processes_limits_the_gpus_also_in_a_slurm_job(data, recipe):
    """In a Slurm job, fairseq's default is all GPUs and a port derived from the job ID."""
    command = only_command("--processes", 2, data, gpus=4, port=4711)
    assert option(command, "--distributed-world-size") == "2"
    assert "--distributed-rank" not in command
    assert option(command, "--distributed-init-method") == "tcp://127.0.0.1:4711"
    job = train.parse(["--processes", "2", "--config", str(recipe)])
    ((settings, _),) = train.workers_of(job, gpus=4, port=4711)
    assert settings["distributed_init_method"] == "tcp://127.0.0.1:4711"


def test_cpu_processes_each_get_their_rank(data, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    job = train.parse([str(data), "--processes=3"])
    workers = [
        (train._fairseq_train(job, settings), environment)
        for settings, environment in train.workers_of(job, gpus=0, port=4711)
    ]
    assert [option(command, "--distributed-rank") for command, _ in workers] == ["0", "1", "2"]
    for command, environment in workers:
        assert option(command, "--distributed-world-size") == "3"
        assert option(command, "--distributed-init-method") == "tcp://127.0.0.1:4711"
        assert option(command, "--distributed-backend") == "gloo"
        assert option(command, "--ddp-backend") == "legacy_ddp"
        assert "--distributed-no-spawn" in command
        assert int(environment["OMP_NUM_THREADS"]) >= 1


def test_variables_of_torchrun_and_srun_set_the_distributed_options(data, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho node3\necho node4\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    slurm = {"STEP_NUM_TASKS": 2, "PROCID": 1, "LOCALID": 0, "STEP_NODELIST": "node[3-4]"}
    slurm |= {"JOB_ID": 70, "STEP_ID": 1}
    torchrun = {"WORLD_SIZE": 2, "RANK": 1, "LOCAL_RANK": 0}
    torchrun |= {"MASTER_ADDR": "a", "MASTER_PORT": 5}
    for address, given in (
        ("tcp://node3:20701", {f"SLURM_{name}": value for name, value in slurm.items()}),
        ("env://", torchrun),
    ):
        with monkeypatch.context() as environment:
            for name, value in given.items():
                environment.setenv(name, str(value))
            command = only_command(data, "--arch", "x", "--cpu")
            with pytest.raises(UserError, match="--processes 2: torchrun or srun has started 2"):
                only_command(data, "--processes", "2")
        assert option(command, "--distributed-init-method") == address
        assert option(command, "--distributed-world-size") == "2"
        assert option(command, "--distributed-rank") == "1"
        assert option(command, "--distributed-backend") == "gloo"
    assert train.launched({"SLURM_STEP_NUM_TASKS": "1"}) is None


def test_more_processes_than_gpus_are_refused():
    with pytest.raises(UserError, match="--processes 4: there are 2 GPUs"):
        train.workers_of(train.parse(["DATA", "--processes", "4"]), gpus=2, port=1)


def test_a_missing_data_folder_is_reported_before_torch_is_imported(tmp_path):
    folder = str(tmp_path / "nowhere")
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", train.__name__, folder, "--arch", "x"],
        capture_output=True,
        text=True,
    )
    imported = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    errors = [line for line in result.stderr.splitlines() if not line.startswith("import time:")]
    assert result.returncode == 2
    assert errors == [
        f"error: {folder}: no such data folder; make it with a script of data-prep/ or with "
        "fairseq-preprocess"
    ]
    assert imported
    assert not any(line.endswith((" torch", " fairseq")) for line in imported)


def python(code):
    """Return a worker that runs Python code."""
    return [sys.executable, "-c", code], {}


def test_exit_code_is_0_if_all_workers_succeed():
    assert train.run_workers([python("pass"), python("pass")]) == 0


def test_a_failed_worker_ends_the_other_workers(capsys):
    start = time.monotonic()
    code = train.run_workers(
        [python("import time; time.sleep(200)"), python("raise SystemExit(7)")]
    )
    assert code == 7
    assert time.monotonic() - start < 10
    assert "process 1 failed (exit code 7); the others are ended" in capsys.readouterr().err


@pytest.mark.integration
def test_interruption_ends_workers_and_their_children(tmp_path):
    note = tmp_path / "pids"
    # The worker starts a child, as a data loader does.
    child = "import time; time.sleep(200)"
    worker = (
        "import os, subprocess, sys, time; "
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}]); "
        f"open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}}\\n'); time.sleep(200)"
    )
    launcher = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.argv[0] = '-m'; "
        "from diverse_mha.training import train; "
        f"sys.exit(train.run_workers([([sys.executable, '-c', {worker!r}], {{}})]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", launcher, str(ROOT)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "the worker did not start"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "run the same command again" in process.stderr.read()
    process.stderr.close()
    for pid in map(int, note.read_text().split()):
        assert ends(pid)


def ends(pid: int) -> bool:
    """Return True if the process ends within 10 s. A zombie has ended."""
    for _ in range(200):  # a busy machine may take long
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_signals_ignored_by_nohup_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable() as check:
            os.kill(os.getpid(), signal.SIGHUP)
            check()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Interrupted):
                check()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("asked", [["--dry-run"], ["--help"]])
def test_a_recipe_is_shown_without_training(asked, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [
        "--config",
        "multi30k_small",
        "method=hsic",
        "common.cpu=true",
        "common.bf16=false",
    ]
    assert train.main([*arguments, "task.data=nowhere", *asked]) == 0
    shown = capsys.readouterr().out
    assert "hsic_weight: " in shown and "data: nowhere (missing)" in shown
    assert "run: runs/multi30k_small/hsic (new)" in shown and "2,048 tokens" in shown
    assert ("usage: " in shown) == (asked == ["--help"])
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_for_a_gpu_is_shown_without_one(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert train.main(["--config", "wmt14_en_de", "--dry-run"]) == 0
    assert "#   common.fp16=true: needs a GPU" in capsys.readouterr().out
    with pytest.raises(UserError, match="model.dropuot=0.2: model has no dropuot; the nearest"):
        train.main(["--config", "wmt14_en_de", "--dry-run", "model.dropuot=0.2"])


def test_only_a_recipe_has_a_dry_run():
    with pytest.raises(UserError, match="--dry-run: shows a recipe; give --config NAME too"):
        train.main(["bin", "--dry-run"])


def test_the_port_is_chosen_when_the_training_starts(monkeypatch):
    """The corpus may be prepared for hours before it."""
    ports, joined = iter((1, 2)), []
    monkeypatch.setattr(train, "_free_port", lambda: next(ports))
    monkeypatch.setattr(train, "_gpus", lambda job: 2)
    monkeypatch.setattr(train.Training, "run", lambda self, settings: joined.append(settings))
    go = train.start(train.parse(["--config", "demo", "--processes", "2"]))
    next(ports)  # taken by another program
    assert go() == 0
    assert joined[0]["distributed_init_method"] == "tcp://127.0.0.1:2"


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize("word", ["modle.x=1", "model.dropuot=1", "task.data=nowhere"])
def test_one_of_torchruns_processes_reports_an_error(rank, word, monkeypatch):
    """The others wait to be ended by torchrun."""
    names = {"WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank}
    for name, value in (names | {"MASTER_ADDR": "a", "MASTER_PORT": "5"}).items():
        monkeypatch.setenv(name, value)
    waits = []
    monkeypatch.setattr(worker.time, "sleep", waits.append)
    with pytest.raises(UserError):
        train.main(["--config", "demo", f"task.data={Path(__file__).parent}", word])
    assert waits == ([] if rank == "0" else [worker.WAIT_SECONDS])
