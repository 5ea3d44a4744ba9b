"""A command run in a process group of its own, output to a log.

Importing torch and fairseq takes seconds, which at the smoke scale is most of a run. So a command
that is a Python module can be run in a fork of this process, which has imported them already; it
is the same command, started half way.
"""

import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import diverse_mha
from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import CAUGHT, end_groups, exit_code, interruptible
from diverse_mha.training import launch


def import_everything() -> None:
    """Import what the forks need, before the first of them."""
    # Hydra warns of how fairseq calls it as soon as that is imported.
    warnings.filterwarnings("ignore", category=UserWarning, message=r"\nThe version_base")
    import fairseq.options  # noqa: F401
    import fairseq_cli.generate  # noqa: F401
    import fairseq_cli.hydra_train  # noqa: F401
    import sacremoses  # noqa: F401
    from sacrebleu.metrics import BLEU  # noqa: F401

    diverse_mha.register()


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    environment: dict[str, str] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Run a command in a subprocess.

    Args:
        command: The command line.
        log: Its output is added at the end of this file.
        cwd: The folder it runs in.
        environment: What is added to the environment.
        meanwhile: Called every half second while it runs.

    Returns:
        The exit code; 128 + the signal's number if a signal ended it.

    Raises:
        Interrupted: if a signal came; the command and its children have ended.
    """
    with log.open("ab") as output:
        _say(output, command)
        child = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=False,  # a lock that the caller made inheritable stays with the command
        )
        return _wait(child.pid, meanwhile)


def run_forked(
    module: str,
    arguments: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Run a Python module, as ``python -m`` does, in a fork of this process.

    Args and result are those of :func:`run_logged`. The launcher would become another program;
    the module that it starts is run in its place.
    """
    if module == "diverse_mha.training.launch":
        module, arguments = _started_by_launch(arguments, cwd)
    with log.open("ab") as output:
        _say(output, ["python", "-m", module, *arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _be(module, arguments, output.fileno(), cwd)
        return _wait(pid, meanwhile)


def _started_by_launch(arguments: Sequence[str], cwd: Path) -> tuple[str, list[str]]:
    before = os.getcwd()
    os.chdir(cwd)  # the recipe's name is relative to it
    try:
        ((command, _),) = launch.commands(launch.parse(arguments), gpus=0, port=0)
    finally:
        os.chdir(before)
    place = command.index("-m")  # what comes before is options of Python, for its warnings
    return command[place + 1], command[place + 2 :]


def _be(module: str, arguments: Sequence[str], output: int, cwd: Path) -> None:
    """In the child: run the module and end the process."""
    code = 1
    try:
        os.setsid()
        for number in CAUGHT:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # Python's own streams may be something else, under a test runner for one.
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        os.chdir(cwd)
        sys.argv = [module, *arguments]
        warnings.filterwarnings("ignore", category=UserWarning)
        # Tiny tensors: a second thread costs more than it brings, most of all on a busy machine,
        # where the threads spin while they wait for each other.
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1").partition(",")[0]))
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _say(output, command: Sequence[str]) -> None:
    output.write(f"\n$ {' '.join(map(str, command))}\n".encode())
    output.flush()


def _wait(pid: int, meanwhile: Callable[[], None] | None) -> int:
    told = time.monotonic()
    with interruptible(lambda: end_groups([pid], lambda: _status(pid) is not None)):
        while (status := _status(pid)) is None:
            time.sleep(0.02)
            if meanwhile is not None and time.monotonic() > told + 0.5:
                meanwhile()
                told = time.monotonic()
    return exit_code(status)


def _status(pid: int) -> int | None:
    """Return the exit code of a child that has ended, which is told once; None if it has not."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # told before
        return 0
    return os.waitstatus_to_exitcode(status) if done else None


def last_line(log: Path) -> str:
    """Return the last line of a log that says something, for a one-line message.

    Raises:
        UserError: if the log cannot be read.
    """
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UserError(f"{log}: {error.strerror}") from error
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if line.startswith("error: ")]
    return (errors or said or [""])[-1]
