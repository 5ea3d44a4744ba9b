"""Runs tasks in threads, and the commands that they wait for.

At the smoke scale importing torch and fairseq is most of a run. So modules run in forks of this
process, which has imported them.
"""

import contextlib
import os
import runpy
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, STDOUT

import torch

import diverse_mha
from diverse_mha.common.errors import UserError, describe_os_error
from diverse_mha.common.places import ROOT
from diverse_mha.common.processes import CAUGHT, Command, end, stoppable
from diverse_mha.training import launch

_stop = threading.Event()


class Stopped(Exception):
    """Raised in a thread after a signal or an error in another one."""


def side_by_side(tasks: Sequence[Callable[[], None]], jobs: int) -> None:
    """Call tasks in order, at most ``jobs`` at a time."""
    with stoppable() as check, ThreadPoolExecutor(jobs) as pool:
        try:
            waiting = {pool.submit(_unless_stopped, task) for task in tasks}
            while waiting:
                check()
                done, waiting = wait(waiting, 0.1, FIRST_COMPLETED)
                for error in (task.exception() for task in done):
                    if error is not None and not isinstance(error, Stopped):
                        raise error
        finally:
            _stop.set()  # after an exception, ends the other tasks
            pool.shutdown(cancel_futures=True)
            _stop.clear()


def _unless_stopped(task: Callable[[], None]) -> None:
    pause(0)
    try:
        task()
    except BaseException:
        _stop.set()  # at once: no other task begins
        raise


def say(text: str) -> None:
    """Print a line at once, whole: threads write beside each other."""
    print(f"{text}\n", end="", flush=True)


@contextlib.contextmanager
def failure_told(head: str) -> Iterator[None]:
    """Turn a failure into one line that begins with ``head``."""
    try:
        yield
    except UserError as error:
        say(f"{head}FAILED: {error}")
    except OSError as error:
        say(f"{head}FAILED: {describe_os_error(error)}")


def pause(seconds: float) -> None:
    """Wait; raises :class:`Stopped` if the tasks must end."""
    if _stop.wait(seconds):
        raise Stopped


def exit_code(command: Command) -> int:
    """Wait for a command, and return its exit code."""
    try:
        while not command.ended():
            pause(0.02)
    except Stopped:
        end([command])
        raise
    return command.code


def import_everything() -> None:
    """Import what the forks need."""
    # Hydra warns of how fairseq calls it.
    warnings.filterwarnings("ignore", category=UserWarning, message=r"\nThe version_base")
    import fairseq.options  # noqa: F401
    import fairseq_cli.generate  # noqa: F401
    import fairseq_cli.hydra_train  # noqa: F401
    import sacremoses  # noqa: F401
    from sacrebleu.metrics import BLEU  # noqa: F401

    diverse_mha.register()
    torch.set_num_threads(1)  # a fork would wait for this process's threads


def start_logged(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Command:
    """Start a command in the project's folder; its output is appended to a log."""
    with log.open("ab") as output:
        output.write(f"\n$ {' '.join(words)}\n".encode())
        output.flush()
        return Command.start(
            words,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
            close_fds=False,  # a lock that the caller made inheritable stays with the command
        )


def start_forked(
    module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
) -> Command:
    """Start a Python module like :func:`start_logged`, in a fork of this process.

    The launcher would replace its process, so the module that it starts is run instead.
    """
    if module == launch.__name__:
        module, arguments = _started_by_launch(arguments)
    with log.open("ab") as output:
        output.write(f"\n$ python -m {module} {' '.join(arguments)}\n".encode())
        output.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _be(module, arguments, output.fileno(), environment)
        return Command(pid, partial(_poll, pid))


def _poll(pid: int) -> int | None:
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def _started_by_launch(arguments: Sequence[str]) -> tuple[str, list[str]]:
    words = [str(ROOT / word) if word.endswith(".yaml") else word for word in arguments]
    ((command, _),) = launch.commands(launch.parse(words), gpus=0, port=0)
    place = command.index("-m")  # before it are options of Python
    return command[place + 1], command[place + 2 :]


def _be(module: str, arguments: Sequence[str], output: int, environment: Mapping[str, str]) -> None:
    """Run the module in the child and end the process."""
    code = 1
    try:
        os.setsid()
        for number in CAUGHT:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # A test runner may have replaced Python's streams.
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        os.chdir(ROOT)
        os.environ.update(environment)
        sys.argv = [module, *arguments]
        warnings.filterwarnings("ignore", category=UserWarning)
        # The tensors are too small for a second thread.
        torch.set_num_threads(int((os.environ.get("OMP_NUM_THREADS") or "1").partition(",")[0]))
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as stop:
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def last_line(log: Path) -> str:
    """Return the last error, or else the last line, of a log's last command."""
    last = ("\n" + log.read_text(encoding="utf-8", errors="replace")).rpartition("\n$ ")[2]
    said = [line.strip() for line in last.splitlines() if line.strip()]
    errors = [line for line in said if line.startswith("error: ")]
    return (errors or said or [""])[-1]
