"""Processes: child processes, signals, folder locks; facts about the machine."""

import contextlib
import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from diverse_mha import __version__
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT, check_output_folder

_held: dict[str, int] = {}  # locked folder -> open file descriptor of :func:`hold`
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
        for number, handler in before.items():
            signal.signal(number, handler)


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
    """

    def __init__(self, words: Sequence[str], **options):
        self._process = subprocess.Popen(list(words), start_new_session=True, **options)
        self.pid = self._process.pid
        self.code: int | None = None

    def ended(self) -> bool:
        """Return True if the process has ended."""
        if self.code is None and (code := self._process.poll()) is not None:
            self.code = code if code >= 0 else 128 - code
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


@contextlib.contextmanager
def sole_use(folder: Path, *, option: str | None = None) -> Iterator[None]:
    """Context manager: lock a folder for this process; create it if missing.

    Raises:
        UserError: if the folder is locked already. If ``option`` (the option that named the
            folder) is given, also if the folder is not writable.
    """
    if option is not None:
        check_output_folder(option, folder)
    folder.mkdir(parents=True, exist_ok=True)
    handle = _lock(folder / ".lock", os.O_RDWR | os.O_CREAT)
    if handle is None:
        raise UserError(f"another run is at work in {folder}; wait for it to end")
    try:
        yield
    finally:
        os.close(handle)


def hold(folder: str | os.PathLike) -> bool:
    """Lock a folder until this process ends, without a lock file; forks do not inherit the lock.

    Returns:
        False if another process has locked it; True otherwise, also if the folder is missing or the
        file system has no locks.
    """
    path = os.path.realpath(folder)
    if path in _held or not os.path.isdir(path):
        return True
    try:
        handle = _lock(path, os.O_RDONLY)
    except OSError:
        return True
    if handle is not None:
        _held[path] = handle
    return handle is not None


def _lock(path: str | os.PathLike, flags: int) -> int | None:
    """Lock a file or folder and return its descriptor; None if another process has locked it."""
    handle = os.open(path, flags, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return handle


def _let_go() -> None:
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=_let_go)


IMITATED_BFLOAT16 = (
    "this processor has no bfloat16 arithmetic and emulates it, which can take ten times as long "
    "as float32"
)


def cores() -> int:
    """Return the number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def computes_in_bfloat16(description: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Return True if the processor computes in bfloat16; None if unknown.

    ``DIVERSE_MHA_BFLOAT16=0`` or ``1`` overrides the detection.
    """
    if (given := os.environ.get("DIVERSE_MHA_BFLOAT16", "")) in ("0", "1"):
        return given == "1"
    try:
        words = set(description.read_text(encoding="utf-8").split())
    except OSError:
        return None
    if not words & {"flags", "Features"}:  # the keys of x86 and ARM
        return None
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def installed(*names: str) -> dict[str, str]:
    """Return name -> version of the distributions in ``names`` that are installed."""
    import importlib.metadata  # here, because the import is slow

    by_name = {}
    for name in names:
        try:
            by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_name


def resident_bytes() -> tuple[int, int]:
    """Return this process's current and peak resident memory in bytes.

    Outside Linux the peak is returned for both. On Linux ``ru_maxrss`` is not used, because it
    starts at the peak of the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        now, peak = (int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
        return now, peak
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    return peak, peak


def versions() -> dict:
    """Return the versions of Python and libraries, and in a clone the commit."""
    result = {"python": platform.python_version(), "diverse_mha": __version__}
    result |= installed("torch", "numpy", "fairseq", "fairseq-fixed")
    if (ROOT / ".git").exists() and shutil.which("git"):
        words = "describe --always --exclude=* --dirty --abbrev=40".split()  # commit, not tags
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        if done.returncode == 0:
            result["git_commit"] = done.stdout.strip()
    return result
