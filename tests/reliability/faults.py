"""Faults of a process: killed at an update or while saving, or a full disk."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

from fairseq.trainer import Trainer


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        where: ``update`` (at its start), ``write`` (a checkpoint is opened for writing)
            or ``rename`` (a file is renamed to a checkpoint).
        nth: number of the update, write or rename, counted from 1 in this process.
        how: ``SIGKILL`` or ``SIGTERM``, at once; for ``write`` also ``kill`` (the kernel ends
            the process after ``size`` bytes) or ``full`` (writing fails after ``size`` bytes,
            as on a full disk).
        size: largest possible size of a file in bytes.
    """

    where: str
    nth: int
    how: str
    size: int = 0


def arm(fault: Fault | None) -> Callable[[], int]:
    """Set up a fault in this process; return a function that counts writes of checkpoints."""
    counts = {"write": 0, "rename": 0, "update": 0}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def at(where: str) -> None:
        counts[where] += 1
        if fault is not None and (where, counts[where]) == (fault.where, fault.nth):
            _strike(fault)

    def hook(event: str, arguments: tuple) -> None:
        if event == "open" and _is_checkpoint(arguments[0]) and _writes(*arguments[1:]):
            at("write")
        elif event == "os.rename" and _is_checkpoint(arguments[1]):
            at("rename")

    sys.addaudithook(hook)
    step = Trainer.train_step

    def train_step(self, *arguments, **options):
        at("update")
        return step(self, *arguments, **options)

    mock.patch.object(Trainer, "train_step", train_step).start()
    return lambda: counts["write"]


def _strike(fault: Fault) -> None:
    if fault.how in ("kill", "full"):
        # Beyond the limit, the kernel sends SIGXFSZ, which kills the process. If the signal is
        # ignored, writing fails with EFBIG at the limit.
        ending = signal.SIG_DFL if fault.how == "kill" else signal.SIG_IGN
        signal.signal(signal.SIGXFSZ, ending)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.size, resource.RLIM_INFINITY))
    else:
        os.kill(os.getpid(), signal.Signals[fault.how])


def _is_checkpoint(path) -> bool:
    return isinstance(path, str) and os.path.basename(path).startswith("checkpoint")


def _writes(mode, flags) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR))
