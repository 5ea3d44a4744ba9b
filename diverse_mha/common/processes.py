"""Commands that this process starts, ended when it is told to stop; a folder for one at a time."""

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from diverse_mha.common.errors import UserError
from diverse_mha.common.places import ROOT, check_folder

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # some network and FUSE file systems
_held: dict[str, int] = {}  # what :func:`hold` keeps open, by folder
_warned: set[int] = set()  # of the file systems with these numbers
GRACE_SECONDS = 10  # for a process to end after SIGTERM
CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal told this process to stop; what it had started was ended first."""

    def __init__(self, number: int):
        super().__init__(f"signal {number}")
        self.number = number


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Note the signals that tell this process to stop, instead of stopping wherever it is.

    Yields:
        What a loop that waits calls every now and then: it raises :class:`Interrupted` once a
        signal has come.
    """
    came: list[int] = []

    def check() -> None:
        if came:
            raise Interrupted(came[0])

    with _handled(CAUGHT, lambda number, _: came.append(number)):
        yield check


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this process as an exception does, so that it tidies up."""

    def end_now(number: int, _) -> NoReturn:
        raise SystemExit(128 + number)

    with _handled(CAUGHT[1:], end_now):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[int], handler: Callable) -> Iterator[None]:
    # What nohup ignores stays ignored.
    hung_up = signal.SIGHUP if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else None
    before = {n: signal.signal(n, handler) for n in numbers if n is not hung_up}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def import_path() -> dict[str, str]:
    """Return the part of an environment in which Python imports this copy of the package."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Else ``-m`` looks first into the current folder, and another copy may lie there.
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}


class Command:
    """A process that was started, the leader of a session and so of a process group of its own.

    Ctrl-C reaches this process alone, which then ends the command and all that it has started.

    Args:
        pid: Its process id.
        popen: What started it, if that is Python's; it must not go before the process has ended.

    Attributes:
        code: The exit code as in a shell, 128 + the signal's number if one ended it; None before.
        seconds: Processor time of it and of what it waited for, once it has ended.
    """

    def __init__(self, pid: int, popen: subprocess.Popen | None = None):
        self.pid, self._popen = pid, popen
        self.code: int | None = None
        self.seconds = 0.0

    @classmethod
    def start(cls, words: Sequence[str], **options) -> "Command":
        """Start a command line; the options are those of ``subprocess.Popen``."""
        popen = subprocess.Popen(list(words), start_new_session=True, **options)
        return cls(popen.pid, popen)

    def ended(self) -> bool:
        """Look whether it has ended."""
        if self.code is None:
            done, status, used = os.wait4(self.pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code
                self.seconds = used.ru_utime + used.ru_stime
                if self._popen is not None:
                    self._popen.returncode = code
        return self.code is not None


def end(
    commands: Sequence[Command],
    *,
    grace: float = GRACE_SECONDS,
    gently: signal.Signals = signal.SIGTERM,
) -> None:
    """End commands and all that they have started, gently first.

    Each gets ``grace`` seconds after the first signal, and after SIGKILL, which follows in any
    case: a command may end before what it has started.
    """
    for number in (gently, signal.SIGKILL):
        for command in commands:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(command.pid, number)
        deadline = time.monotonic() + grace
        while not all([c.ended() for c in commands]) and time.monotonic() < deadline:
            time.sleep(0.02)


def run_to_end(words: Sequence[str], **options) -> tuple[int, str]:
    """Run a command, and return its exit code and what it wrote to stderr.

    An exception meanwhile ends it with all that it has started: a worker that went on would write
    into files that are being removed, or into those of the next run.
    """
    with tempfile.TemporaryFile() as said:
        command = Command.start(words, stderr=said, **options)
        try:
            while not command.ended():
                time.sleep(0.02)
        except BaseException:
            end([command])
            raise
        said.seek(0)
        return command.code, said.read().decode(errors="replace")


@contextlib.contextmanager
def sole_use(folder: Path, *, option: str | None = None) -> Iterator[None]:
    """Hold a folder for this process and the commands it starts.

    The commands inherit the lock: one that outlives this process, because that was killed, keeps
    a second one from writing into the same files. A folder that was made for it and is still
    empty afterwards goes. On a file system without locks a line of warning takes their place.

    Args:
        folder: The folder; made if need be.
        option: How the user gave it; it is checked whether it can be written to.
    """
    if option is not None:
        check_folder(option, folder)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    path = folder / ".lock"
    for again in reversed(range(1000)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(path, "w")
        except (FileExistsError, FileNotFoundError):
            if not again:
                raise
            continue  # whoever held it before may just have removed the empty folder
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise UserError(f"another run is at work in {folder}; wait for it to end") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                lock.close()
                raise
            _warn_of_no_locks(folder, error)
            break
        # Whoever held it before may have removed the file since it was opened here.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                break
        lock.close()
    with lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the first that is not empty ends it
                for place in made:
                    place.rmdir()


def hold(folder: str | os.PathLike) -> bool:
    """Hold a folder, without a file in it, for this process and to its end; not for its forks.

    Where the file system has no locks, or it is no folder of this machine, nothing is held.

    Returns:
        False if another process holds it so.
    """
    path = os.path.realpath(folder)
    if path in _held or not os.path.isdir(path):
        return True
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        return not isinstance(error, BlockingIOError)
    _held[path] = handle
    return True


def _let_go() -> None:
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=_let_go)


def _warn_of_no_locks(folder: Path, error: OSError) -> None:
    if (device := folder.stat().st_dev) not in _warned:
        _warned.add(device)
        print(
            f"warning: {folder}: no locks on this file system ({error.strerror}); see to it that "
            "no second run works in the same folder",
            file=sys.stderr,
        )
