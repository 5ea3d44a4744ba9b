"""Locks of files and folders, which end with the process that holds them (``flock``).

There are two kinds. A file that a process writes is locked as that file, also over NFS: the
temporary file of a checkpoint, and the file ``.lock`` of a run of ``diverse-mha reproduce``, whose
commands lock folders themselves. A training locks its save folder without a file, since a refused
training must leave nothing there; NFS has no locks of folders, so there it trains unlocked.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from diverse_mha.common.errors import UserError

_held: dict[str, int] = {}  # locked folder -> open file descriptor of :func:`hold`


def lock(handle: int, *, required: bool = False) -> bool:
    """Lock an open file or folder until it is closed; return False if it is locked already.

    A file system without locks raises OSError if the lock is ``required``, else gives True.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if required:
            raise
    return True


@contextlib.contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Context manager: lock ``folder/.lock``, which is created if missing.

    Raises:
        UserError: if another process has locked it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "ab") as file:
        if not lock(file.fileno(), required=True):  # else runs could spoil each other's corpus
            raise UserError(f"another run is at work in {folder}; wait for it to end")
        yield


def hold(folder: str | os.PathLike) -> bool:
    """Lock a folder until this process ends, without a lock file; forks do not inherit the lock.

    Returns:
        False if another process has locked it; True otherwise, also if the folder is missing.
    """
    path = os.path.realpath(folder)
    if path in _held or not os.path.isdir(path):
        return True
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return True
    if not lock(handle):
        os.close(handle)
        return False
    _held[path] = handle
    return True


def _let_go() -> None:
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=_let_go)
