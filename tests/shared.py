"""Folders that the test processes of pytest-xdist make once and share."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def base_folder(tmp_path_factory) -> Path:
    """Return the temporary folder of this test session, the same in every process."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(tmp_path_factory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that one process fills by ``make``, while the other processes wait."""
    folder = base_folder(tmp_path_factory) / name
    stamp = folder.with_name(f"{name}.made")
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            shutil.rmtree(folder, ignore_errors=True)  # left by a failed attempt
            folder.mkdir()
            make(folder)
            stamp.touch()
    return folder
