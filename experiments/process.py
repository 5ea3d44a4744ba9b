"""Runs tasks in threads, and the commands that they wait for."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from subprocess import DEVNULL, STDOUT

from diverse_mha.common.errors import UserError, describe_os_error
from diverse_mha.common.files import ROOT
from diverse_mha.common.processes import Command, end, stoppable

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


def start_logged(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Command:
    """Start a command in the project's folder; its output is appended to a log."""
    with log.open("ab") as output:
        output.write(f"\n$ {' '.join(words)}\n".encode())
        output.flush()
        return Command(
            words,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
            close_fds=False,  # a lock that the caller made inheritable stays with the command
        )


def last_line(log: Path) -> str:
    """Return the last error, or else the last line, of a log's last command."""
    last = ("\n" + log.read_text(encoding="utf-8", errors="replace")).rpartition("\n$ ")[2]
    said = [line.strip() for line in last.splitlines() if line.strip()]
    errors = [line for line in said if line.startswith("error: ")]
    return (errors or said or [""])[-1]
