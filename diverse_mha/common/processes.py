"""Processes that this one starts, ended when it is told to stop; and a folder for one at a time."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.places import check_folder

GRACE_SECONDS = 10  # for a process to end after SIGTERM
CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal told this process to stop; what it had started was ended first."""

    def __init__(self, number: int):
        super().__init__(f"signal {number}")
        self.number = number


@contextlib.contextmanager
def interruptible(cleanup: Callable[[], None] | None = None) -> Iterator[None]:
    """Turn signals that tell this process to stop into :class:`Interrupted`.

    Args:
        cleanup: Called when an exception ends the block, with these signals ignored.
    """

    def stop(number: int, _frame: object) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, stop) for number in CAUGHT}
    try:
        yield
    except BaseException:
        for number in CAUGHT:
            signal.signal(number, signal.SIG_IGN)
        if cleanup is not None:
            cleanup()
        raise
    finally:
        for number in CAUGHT:
            signal.signal(number, before[number])


def end_groups(
    leaders: Sequence[int],
    ended: Callable[[], bool],
    *,
    grace: float = GRACE_SECONDS,
    gently: signal.Signals = signal.SIGTERM,
) -> None:
    """End process groups, gently first, and wait for their leaders.

    Args:
        leaders: Their process ids.
        ended: Whether all of them have ended; waits for those that have.
        grace: Seconds they have after the first signal, and after SIGKILL, which follows in any
            case: a leader may end before what it has started.
        gently: The first signal.
    """
    for number in (gently, signal.SIGKILL):
        for leader in leaders:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, number)
        deadline = time.monotonic() + grace
        while not ended() and time.monotonic() < deadline:
            time.sleep(0.02)


def exit_code(status: int) -> int:
    """Return a process's exit code as a shell does: 128 + the signal's number where one ended it.

    Args:
        status: As ``subprocess`` gives it, negative for a signal.
    """
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def sole_use(folder: Path, *, option: str | None = None, wait: bool = False) -> Iterator[None]:
    """Hold a folder for this process and the commands it starts.

    The commands inherit the lock: one that outlives this process, because that was killed, keeps
    a second one from writing into the same files. A folder that was made for it and is still
    empty afterwards goes.

    Args:
        folder: The folder; made if need be.
        option: How the user gave it; it is checked whether it can be written to.
        wait: Wait for another process that holds it.

    Raises:
        UserError: If another process holds it, and this one is not to wait; or it cannot be made.
    """
    if option is not None:
        check_folder(option, folder)
    try:
        import fcntl
    except ImportError:  # not a Unix: no such lock, and fairseq does not run there either
        yield
        return
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    while True:
        lock = open(path, "w")
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            lock.close()
            raise UserError(f"another run is at work in {folder}; wait for it to end") from None
        # Whoever held it before may have removed the file since it was opened here.
        if path.exists() and os.path.samestat(path.stat(), os.fstat(lock.fileno())):
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
