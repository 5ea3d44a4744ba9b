"""``diverse-mha train``: starts training in one process, on several GPUs, or in CPU processes.

Differences from ``torchrun fairseq-train``:

* CPU processes train one model, with gloo and fairseq's ``legacy_ddp``. fairseq alone would take
  its world size from the number of GPUs and train unrelated copies.
* If a worker fails, the others are ended, and the failed worker's exit code is returned.
* A wrong data folder is refused before the slow import of fairseq. So this module imports nothing
  slow.

With GPUs fairseq starts its processes itself. Under ``torchrun`` or ``srun`` this process is one of
the workers that they started.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diverse_mha.common.errors import OneLineParser, UserError, add_number, called, run_cli
from diverse_mha.common.files import USER_DIR, check_data_folder
from diverse_mha.common.machine import cores
from diverse_mha.common.options import flag
from diverse_mha.common.processes import Command, Interrupted, end, import_path, stoppable
from diverse_mha.recipes.recipe import Recipe, read_recipe
from diverse_mha.training.worker import (
    Training,
    first_process_reports,
    precision_before,
    with_changes,
)

USAGE = """\
usage: {train} [--processes N] DATA [options of fairseq-train]
       {train} [--processes N] --config FILE.yaml [key=value ...]

Trains a model with fairseq and this plugin. The first form takes the options of
fairseq-train. The second takes a recipe, and key=value to change it; task.data=DATA
is the data folder.

  --processes N   train on N GPUs, or in N processes on a CPU. Default: all GPUs,
                  or one process. A recipe's optimization.update_freq, also one that
                  you give, is divided by N, and rounded; without a recipe, an update
                  takes N times --max-tokens
  --config FILE   a recipe: a file, or the name of one in configs/
  --dry-run       show the composed recipe and the plan, and train nothing;
                  so does --help with --config
  -h, --help      show this help; fairseq-train --help has fairseq's options

--user-dir is added unless you give one.

examples:
  {train} data/demo/bin --arch transformer_disagree_small --optimizer adam ...
  {train} --config multi30k_small method=coda checkpoint.save_dir=runs/coda
"""

#: Settings of ``distributed_training``, and environment variables, of a process.
Worker = tuple[dict[str, Any], dict[str, str]]
CPU_BACKENDS = ("legacy_ddp", "no_c10d")  # two names of one backend


@dataclass
class OptionsJob:
    """What to train by options of fairseq-train, and in how many processes."""

    words: list[str]
    processes: int | None = None  # None: as many as there are GPUs, or one

    def setting(self, group: str, key: str) -> str | None:
        """Return ``--some-key`` of the command line; ``group`` is not needed."""
        value, option = None, flag(key)
        for position, word in enumerate(self.words):
            if word == option:
                value = (self.words[position + 1 :] or [""])[0]
            elif word.startswith(option + "="):
                value = word.partition("=")[2]
        return value

    @property
    def on_cpu(self) -> bool:
        """True if the user asks for the CPU."""
        return "--cpu" in self.words


@dataclass
class RecipeJob:
    """What to train by a recipe, and in how many processes."""

    recipe: Recipe
    processes: int | None = None  # None: as many as there are GPUs, or one
    dry: bool = False  # show the settings, and train nothing
    help: bool = False

    def setting(self, group: str, key: str) -> str | None:
        """Return ``group.some_key`` of the recipe."""
        value = self.recipe.get(f"{group}.{key}")
        return None if value is None else str(value)

    @property
    def on_cpu(self) -> bool:
        """True if the recipe asks for the CPU."""
        return bool(self.recipe.get("common.cpu"))


Job = OptionsJob | RecipeJob


def parse(words: Sequence[str]) -> Job:
    """Parse our options in a command line; the remaining words are for fairseq, or a recipe's."""
    parser = OneLineParser(prog=called("train"), add_help=False, allow_abbrev=False)
    add_number(parser, "processes", None, "")
    parser.add_argument("--config")
    parser.add_argument("--dry-run", action="store_true")
    options, rest = parser.parse_known_args(words)
    if options.config is None:
        if options.dry_run:
            raise UserError("--dry-run: shows a recipe; give --config NAME too")
        if not rest or rest[0].startswith("-"):
            raise UserError(f"the data folder must come first; see {called('train')} --help")
        return OptionsJob(rest, options.processes)
    helps = {"-h", "--help"} & set(rest)
    rest = [word for word in rest if word not in helps]
    recipe = read_recipe(options.config, rest)
    dry = options.dry_run or bool(helps)
    return RecipeJob(recipe, options.processes, dry, help=bool(helps))


def workers_of(job: Job, gpus: int, port: int) -> list[Worker]:
    """Return the processes to start.

    ``gpus`` is the number of GPUs; with 0 the processes run on the CPU. They rendezvous at
    ``port``, a free port of this machine.
    """
    if (started := launched(os.environ)) is not None:
        return [(_of_launched(job, started, gpus), {})]
    count = job.processes
    world_size = job.setting("distributed_training", "distributed_world_size")
    if count is None:  # fairseq would count the GPUs even with --cpu
        alone = job.on_cpu and world_size is None
        return [({"distributed_world_size": 1} if alone else {}, {})]
    if world_size is not None and world_size != str(count):
        raise UserError(
            f"--processes {count} and distributed world size {world_size} contradict each other; "
            "give --processes alone"
        )
    if gpus and count > gpus:
        raise UserError(f"--processes {count}: there are {gpus} GPUs; give at most {gpus}")
    address = f"tcp://127.0.0.1:{port}"
    if gpus or count == 1:
        settings: dict[str, Any] = {"distributed_world_size": count}
        if count > 1:  # in a Slurm job fairseq would take all GPUs, and always use the same port
            settings["distributed_init_method"] = address
        return [(settings, {})]
    backend = job.setting("distributed_training", "ddp_backend")
    if backend is not None and backend not in CPU_BACKENDS:
        raise UserError(
            f"ddp backend {backend} needs GPUs: leave it out, or use legacy_ddp, "
            f"for --processes {count} on the CPU"
        )
    # Otherwise every process would use all cores.
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores() // count)))
    settings = {
        "distributed_world_size": count,
        "distributed_init_method": address,
        "distributed_no_spawn": True,
        "distributed_backend": "gloo",
        "ddp_backend": "legacy_ddp",
    }
    return [
        (settings | {"distributed_rank": rank}, {"OMP_NUM_THREADS": threads})
        for rank in range(count)
    ]


@dataclass(frozen=True)
class Launched:
    """Rank and rendezvous of this process, one of several that ``torchrun`` or ``srun`` started."""

    processes: int  # on all machines
    rank: int
    device: int  # local rank: number of the process and its GPU on this machine
    address: str  # where the processes rendezvous


def launched(environment: Mapping[str, str]) -> Launched | None:
    """Read the environment that ``torchrun`` or ``srun`` has set.

    Return None without ``torchrun``, unless ``srun`` started several processes.
    """
    names = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    if {*names} <= environment.keys():
        processes, rank, device = (int(environment[name]) for name in names[:3])
        return Launched(processes, rank, device, "env://")
    if int(environment.get("SLURM_STEP_NUM_TASKS", "1")) == 1:
        return None
    names = ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID")
    words = ["scontrol", "show", "hostnames", environment["SLURM_STEP_NODELIST"]]
    hosts = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    # The same port for all processes of a step, and another one for the next step.
    step = int(environment["SLURM_JOB_ID"]) * 10 + int(environment["SLURM_STEP_ID"])
    address = f"tcp://{hosts[0]}:{20_000 + step % 20_000}"
    processes, rank, device = (int(environment[name]) for name in names)
    return Launched(processes, rank, device, address)


def _of_launched(job: Job, started: Launched, gpus: int) -> dict[str, Any]:
    if job.processes is not None:
        raise UserError(
            f"--processes {job.processes}: torchrun or srun has started {started.processes} "
            "processes; leave out --processes"
        )
    settings = {
        "distributed_world_size": started.processes,
        "distributed_rank": started.rank,
        "distributed_init_method": started.address,
        "distributed_no_spawn": True,
        "device_id": started.device,
    }
    if not gpus:
        settings |= {"distributed_backend": "gloo", "ddp_backend": "legacy_ddp"}
    return settings


def run_workers(workers: Sequence[tuple[list[str], dict[str, str]]]) -> int:
    """Run processes in parallel; if one fails, or after a signal, end them all.

    Each worker leads a process group, so that its data loaders end with it. Ctrl-C reaches only
    this process.

    Returns:
        0 if all succeeded, else the exit code of the first that failed (128 + signal number if a
        signal ended it). If this process received a signal: 128 + the number of this signal.
    """
    running: list[Command] = []
    try:
        with stoppable() as check:
            try:
                for command, environment in workers:
                    together = os.environ | import_path() | environment
                    running.append(Command(command, env=together))
                return _first_failure(running, check)
            finally:
                end(running)
    except Interrupted as stopped:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 128 + stopped.number


def _first_failure(running: Sequence[Command], check: Callable[[], None]) -> int:
    """Return the exit code of the first process that fails, or 0 when all have succeeded."""
    waiting = list(enumerate(running))
    while waiting:
        check()
        time.sleep(0.05)
        for rank, worker in list(waiting):
            if not worker.ended():
                continue
            waiting.remove((rank, worker))
            if worker.code:
                others = "; the others are ended" if waiting else ""
                print(f"process {rank} failed (exit code {worker.code}){others}", file=sys.stderr)
                return worker.code
    return 0


def main(words: Sequence[str]) -> int:
    """Train; return the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE.format(train=called("train")), end="")
        return 0 if words else 2
    started = launched(os.environ)
    with first_process_reports(started.rank if started else 0):
        job = parse(words)
        if isinstance(job, OptionsJob):
            go = _start_by_options(job)
        elif job.dry:
            return _show(job)
        else:
            check_data(job)
            go = start(job)
    return go()


def _show(job: RecipeJob) -> int:
    """Print what a training with a recipe would do."""
    from diverse_mha.recipes.configuration import configure
    from diverse_mha.recipes.machine import describe, processes_of

    configure(job.recipe)
    if job.help:
        print(USAGE.format(train=called("train")))
    processes = processes_of(job.recipe, job.processes)
    print(describe(job.recipe, processes, precision_before(job.recipe)))
    return 0


def check_data(job: RecipeJob) -> None:
    """Raise an error if a recipe's data folder is missing or has no dictionary."""
    data = job.setting("task", "data")
    if data is None or data == "???":  # OmegaConf's mandatory value
        raise UserError(f"{job.recipe.path}: no data folder; add task.data=DATA")
    # A classification corpus has its dictionaries in subfolders.
    check_data_folder(data, ("dict*.txt", "*/dict.txt"))


def start(job: RecipeJob) -> Callable[[], int]:
    """Check a recipe against fairseq and this machine; return a function that trains it.

    The processes' port is chosen when they start, because a corpus may be prepared before.
    """
    gpus = _gpus(job)
    workers = workers_of(job, gpus, port=0)
    from diverse_mha.recipes.configuration import check
    from diverse_mha.recipes.machine import adapt, processes_of

    settings = check(job.recipe)
    processes = processes_of(job.recipe, workers[0][0].get("distributed_world_size"))
    changes, notes = adapt(job.recipe, processes, precision_before(job.recipe))
    training = Training(job.recipe, with_changes(settings, changes), notes)
    training.check_model()

    def go() -> int:
        begun = workers_of(job, gpus, _free_port())
        if len(begun) > 1:
            return _train_in_processes(training, begun)
        return training.run(begun[0][0]) or 0

    return go


def _train_in_processes(training: Training, workers: Sequence[Worker]) -> int:
    """Start a process for each worker."""
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        commands = []
        for rank, (settings, environment) in enumerate(workers):
            file = Path(folder, f"{rank}.json")
            training.save(file, settings)
            command = [sys.executable, "-m", "diverse_mha.training.worker", str(file)]
            commands.append((command, environment))
        return run_workers(commands)


def _start_by_options(job: OptionsJob) -> Callable[[], int]:
    """Return a function that trains as fairseq-train does, with its options."""
    check_data_folder(job.words[0], ("dict*.txt", "*/dict.txt"))
    workers = [
        (_fairseq_train(job, settings), environment)
        for settings, environment in workers_of(job, _gpus(job), _free_port())
    ]

    def go() -> int:
        if len(workers) > 1:
            return run_workers(workers)
        # Replace this process with fairseq, so that signals and the terminal reach it directly.
        ((command, environment),) = workers
        sys.stdout.flush()
        os.execve(command[0], command, os.environ | import_path() | environment)

    return go


def _fairseq_train(job: OptionsJob, settings: Mapping[str, object]) -> list[str]:
    """Return the command line of one process of fairseq-train."""
    command = [sys.executable, "-m", "diverse_mha.training.fairseq_train", *job.words]
    if job.setting("common", "user_dir") is None:
        command += ["--user-dir", str(USER_DIR)]
    for key, value in settings.items():
        command += [flag(key)] if value is True else [flag(key), str(value)]
    return command


def _gpus(job: Job) -> int:
    """Return the number of GPUs, if it matters: for several processes that may use them."""
    several = (job.processes or 1) > 1 or launched(os.environ) is not None
    if not several or job.on_cpu:
        return 0
    import torch

    return torch.cuda.device_count()


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
