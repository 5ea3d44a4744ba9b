"""Child processes and signals.

Used by commands that start other commands or write folders.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from diverse_mha.common.files import ROOT

GRACE_SECONDS = 10  # between SIGTERM and SIGKILL
CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal asked this process to stop."""

    def __init__(self, number: int):
        super().__init__(f"signal {number}")
        self.number = number


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Context manager: record SIGINT, SIGTERM and SIGHUP instead of stopping at once.

    Yields:
        A function for a waiting loop that raises :class:`Interrupted` after a signal.
    """
    received: list[int] = []

    def check() -> None:
        if received:
            raise Interrupted(received[0])

    with _handled(CAUGHT, lambda number, _: received.append(number)):
        yield check


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Context manager: raise SystemExit on SIGTERM and SIGHUP, so that this process cleans up."""

    def end_now(number: int, _) -> NoReturn:
        raise SystemExit(128 + number)

    with _handled(CAUGHT[1:], end_now):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[int], handler: Callable) -> Iterator[None]:
    # Keep SIGHUP ignored under nohup.
    hung_up = signal.SIGHUP if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else None
    before = {n: signal.signal(n, handler) for n in numbers if n is not hung_up}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def import_path() -> dict[str, str]:
    """Return environment variables with which Python imports this copy of the package."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Without PYTHONSAFEPATH, ``-m`` searches the current folder first, where another copy may be.
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}


class Command:
    """A child process in its own session, so that Ctrl-C reaches only this process.

    ``words`` is the command line; ``options`` are those of ``subprocess.Popen``.

    Attributes:
        code: exit code as in a shell (128 + number of a signal); None while it runs.
        peak_bytes: afterwards, the largest resident memory of the process, or of a child of it
            that had more. On Linux, at least what this process had when it started the command.
    """

    def __init__(self, words: Sequence[str], **options):
        self._process = subprocess.Popen(list(words), start_new_session=True, **options)
        self.pid = self._process.pid
        self.code: int | None = None
        self.peak_bytes = 0

    def ended(self) -> bool:
        """Return True if the process has ended."""
        if self.code is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code
                self.peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return self.code is not None


def end(
    commands: Sequence[Command],
    *,
    grace: float = GRACE_SECONDS,
    gently: signal.Signals = signal.SIGTERM,
) -> None:
    """Terminate commands and their children by the signal ``gently``, then by SIGKILL.

    After each signal, wait up to ``grace`` seconds for the commands.
    SIGKILL is always sent, because a command may end before its children.
    """
    for number in (gently, signal.SIGKILL):
        for command in commands:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(command.pid, number)
        deadline = time.monotonic() + grace
        while not all([c.ended() for c in commands]) and time.monotonic() < deadline:
            time.sleep(0.02)
