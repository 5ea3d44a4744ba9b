"""Starts training in one process, on several GPUs, or in several CPU processes.

``scripts/train.sh`` runs this module, which runs fairseq. Differences from
``torchrun fairseq-train``:

* CPU processes train one model, with gloo and fairseq's ``legacy_ddp``. fairseq alone would take
  its world size from the number of GPUs and train unrelated copies.
* If a worker fails, the others are ended, and the failed worker's exit code is returned.
* A wrong data folder is refused before the slow import of fairseq. So this module imports nothing
  slow.

With GPUs fairseq starts its processes itself. Under ``torchrun`` or ``srun`` this process is one of
the workers that they started.
"""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common.errors import OneLineParser, UserError, add_number, called, run_cli
from diverse_mha.common.files import CONFIGS, USER_DIR, check_data_folder
from diverse_mha.common.options import flag
from diverse_mha.common.processes import Command, Interrupted, cores, end, import_path, stoppable
from diverse_mha.training import compose
from diverse_mha.training.request import Request

USAGE = """\
usage: {train} [--processes N] DATA [options of fairseq-train]
       {train} [--processes N] --config FILE.yaml [key=value ...]

Trains a model with fairseq and this plugin. The first form takes the options of
fairseq-train. The second takes a recipe, and key=value to change it; task.data=DATA
is the data folder.

  --processes N   train on N GPUs, or in N processes on a CPU. Default: all GPUs,
                  or one process. A recipe's optimization.update_freq is divided by
                  N, and rounded; without a recipe, an update takes N times
                  --max-tokens
  --config FILE   a recipe: a file, or the name of one in configs/
  --dry-run       show the composed recipe and the plan, and train nothing;
                  so do --cfg job (Hydra's name for it), and --help with --config
  -h, --help      show this help; fairseq-train --help has fairseq's options

--user-dir is added unless you give one.

examples:
  {train} data/demo/bin --arch transformer_disagree_small --optimizer adam ...
  {train} --config multi30k_small method=coda checkpoint.save_dir=runs/coda
"""

_PLAIN = re.compile(r"[\w\s./:+*%?@|-]*", re.ASCII)  # values that Hydra accepts without quotes
CPU_BACKENDS = ("legacy_ddp", "no_c10d")  # two names of one backend


def parse(words: Sequence[str]) -> Request:
    """Parse our options in a command line; the remaining words are for fairseq."""
    parser = OneLineParser(prog=called("train"), add_help=False, allow_abbrev=False)
    add_number(parser, "processes", None, "")
    parser.add_argument("--config", type=compose.find)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--cfg", choices=["job"])
    options, rest = parser.parse_known_args(words)
    dry = options.dry_run or options.cfg is not None
    if options.config is None and dry:
        raise UserError("--dry-run: shows a recipe; give --config NAME too")
    if options.config is not None and (helps := {"-h", "--help"} & set(rest)):
        dry, rest = True, [word for word in rest if word not in helps]
    job = Request(rest, options.processes, options.config, dry=dry)
    if job.config is not None:
        for word in job.arguments:
            if "=" not in word:
                cure = f"{word} VALUE is written {word}=VALUE" if "." in word else "write key=value"
                raise UserError(f"{word}: with --config, settings are key=value; {cure}")
        job.recipe = _read_recipe(job.config, job.arguments)
    elif not job.arguments or job.arguments[0].startswith("-"):
        raise UserError(f"the data folder must come first; see {called('train')} --help")
    if job.flag("common", "cpu") and launched(os.environ) is None:
        job.processes = job.processes or 1  # fairseq would count the GPUs even with --cpu
    return job


def commands(job: Request, gpus: int, port: int) -> list[tuple[list[str], dict[str, str]]]:
    """Return the processes to start: command lines and additions to their environment.

    ``gpus`` is the number of GPUs; with 0 the processes run on the CPU. They rendezvous at
    ``port``, a free port of this machine.
    """
    if (started := launched(os.environ)) is not None:
        return [(_fairseq(job, _of_launched(job, started, gpus)), {})]
    count = job.processes
    if count is None:
        return [(_fairseq(job, {}), {})]
    world_size = job.setting("distributed_training", "distributed_world_size")
    if world_size is not None and world_size != str(count):
        raise UserError(
            f"--processes {count} and distributed world size {world_size} contradict each other; "
            "give --processes alone"
        )
    if gpus and count > gpus:
        raise UserError(f"--processes {count}: there are {gpus} GPUs; give at most {gpus}")
    address = f"tcp://127.0.0.1:{port}"
    if gpus or count == 1:
        settings = {"distributed_world_size": count}
        if count > 1:  # in a Slurm job fairseq would take all GPUs, and always use the same port
            settings["distributed_init_method"] = address
        return [(_fairseq(job, settings), {})]
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
        (_fairseq(job, settings | {"distributed_rank": rank}), {"OMP_NUM_THREADS": threads})
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
    return Launched(*(int(environment[name]) for name in names), address)


def _of_launched(job: Request, started: Launched, gpus: int) -> dict[str, object]:
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
    job = parse(words)
    if job.dry:
        from diverse_mha.training.checks import check
        from diverse_mha.training.plan import describe

        check(job)
        if {"-h", "--help"} & set(words):
            print(USAGE.format(train=called("train")))
        print(describe(job))
        return 0
    workers = _prepare(job)
    if len(workers) > 1:
        return run_workers(workers)
    # Replace this process with fairseq, so that signals and the terminal reach it directly.
    ((command, environment),) = workers
    sys.stdout.flush()
    os.execve(command[0], command, os.environ | import_path() | environment)


def _prepare(job: Request) -> list[tuple[list[str], dict[str, str]]]:
    """Check everything that does not need fairseq; return the processes to start."""
    data = job.arguments[0] if job.config is None else job.setting("task", "data")
    if data is None or data == "???":  # Hydra's mandatory value
        raise UserError(f"{job.config}: no data folder; add task.data=DATA")
    data = data.replace("${hydra:runtime.cwd}", os.getcwd())
    if "${" not in data:  # only Hydra can resolve other interpolations
        # A classification corpus has its dictionaries in subfolders.
        check_data_folder(data, ("dict*.txt", "*/dict.txt"))
    gpus = 0
    several = (job.processes or 1) > 1 or launched(os.environ) is not None
    if several and not job.flag("common", "cpu"):
        import torch

        gpus = torch.cuda.device_count()
    return commands(job, gpus, _free_port())


def _read_recipe(path: Path, words: Sequence[str]) -> dict:
    if not path.is_file():
        names = ", ".join(sorted(recipe.stem for recipe in CONFIGS.glob("*.yaml")))
        raise UserError(f"--config {path}: no such file; recipes in configs/: {names}")
    if path.suffix != ".yaml":
        raise UserError(f"--config {path}: Hydra reads only *.yaml files; rename the file")
    choices, settings = compose.parse_overrides([*map(_hydra_word, words)])
    searched = [word for word in words if word.startswith("hydra.searchpath=")]
    if all(str(CONFIGS) in word for word in searched):  # the user's own path may have other files
        compose.check_choices(path, choices)
    return compose.compose(path, choices, settings, lenient=True)


def _fairseq(job: Request, settings: dict) -> list[str]:
    """Return the command line of one fairseq process."""
    if job.config is None:
        command = [sys.executable, "-m", "diverse_mha.training.fairseq_train", *job.arguments]
        if job.setting("common", "user_dir") is None:
            command += ["--user-dir", str(USER_DIR)]
        for key, value in settings.items():
            option = flag(key)
            command += [option] if value is True else [option, str(value)]
        return command
    # Hydra warns before the plugin can suppress its warnings.
    command = [sys.executable, "-W", "ignore::UserWarning", "-m", "diverse_mha.training.recipe"]
    command += ["--config-dir", str(job.config.absolute().parent), "--config-name", job.config.stem]
    command += map(_hydra_word, job.arguments)
    given = {word.lstrip("+").partition("=")[0] for word in job.arguments}
    # A recipe expects the plugin in the current folder, which need not be a clone.
    user_dir = Path(job.setting("common", "user_dir") or USER_DIR)
    if "common.user_dir" not in given and user_dir.name == USER_DIR.name:
        command.append(f"++common.user_dir={hydra_quoted(str(USER_DIR))}")
    if "hydra.job.chdir" not in given:
        # Otherwise Hydra changes the current folder, and relative paths become wrong.
        command.append("hydra.job.chdir=False")
    if "hydra.searchpath" not in given and CONFIGS.is_dir():
        # A recipe that was copied elsewhere must still find the files of method= and size=.
        command.append(f"hydra.searchpath=[{hydra_quoted(f'file://{CONFIGS}')}]")
    for key, value in settings.items():
        command.append(f"++distributed_training.{key}={value}")
    return command


def hydra_quoted(text: str) -> str:
    """Quote a value, such as a path with a space, for Hydra's grammar."""
    # A backslash is special only before a quote.
    return "'" + re.sub(r"(\\*)('|\Z)", lambda m: 2 * m[1] + m[2].replace("'", "\\'"), text) + "'"


def _hydra_word(word: str) -> str:
    """Quote the value of ``key=value`` if Hydra's grammar requires quotes."""
    key, _, value = word.partition("=")
    # A value with quotes, brackets, escapes or interpolations is taken as Hydra's grammar.
    written = set(value) & set("\"'[]{}$\\")
    return word if _PLAIN.fullmatch(value) or written else f"{key}={hydra_quoted(value)}"


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
