"""Interrupts and resumes a training, and compares it with an uninterrupted one."""

from pathlib import Path

import torch

from diverse_mha.common.status import read_status
from tests.reliability.children import Child, call, train
from tests.reliability.faults import Fault

UPDATES = 8  # an epoch has 4 to 7 updates


def whole_run(words: list[str], save_dir: Path) -> tuple[dict, int]:
    """Train without a fault; return the last checkpoint and the number of checkpoint writes."""
    count = call(train, words)
    return load(save_dir / "checkpoint_last.pt"), count


def interrupted_run(words: list[str], save_dir: Path, fault: Fault) -> tuple[dict, object]:
    """Train with a fault, check the files, and resume with the same command.

    Returns:
        The last checkpoint, and the message at the fault.
    """
    code, message = Child(train, words, fault).result()
    expected = {"SIGKILL": -9, "SIGTERM": -15, "kill": -25, "full": 1}[fault.how]
    assert code == expected, f"{fault}: exit code {code}, {message}"
    for path in save_dir.glob("checkpoint*.pt"):
        load(path)  # every checkpoint is complete
    status = read_status(save_dir)
    assert not (status and status.finished)
    call(train, words)
    return load(save_dir / "checkpoint_last.pt"), message


def load(path: Path) -> dict:
    """Load a checkpoint."""
    return torch.load(path, weights_only=True)


def differences(first: dict, second: dict) -> list[str]:
    """Return the names of different weights, optimizer states and numbers of updates."""
    found: list[str] = []
    for part in ("model", "last_optimizer_state"):
        _compare(part, first[part], second[part], found)
    # optimizer_history gets an entry at each start; only the last one is compared. The best
    # validation loss is left out, because fairseq loses it when it resumes at the end of an epoch;
    # only reduce_lr_on_plateau uses it. The learning rate is in the optimizer's state.
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (first, second)]
    _compare("num_updates", *updates, found)
    return found


def _compare(name: str, first, second, found: list[str]) -> None:
    if isinstance(first, dict):
        if first.keys() != second.keys():
            found.append(f"{name}: other keys")
            return
        for key, value in first.items():
            _compare(f"{name}.{key}", value, second[key], found)
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            found.append(f"{name}: {len(first)} and {len(second)} items")
            return
        for number, pair in enumerate(zip(first, second, strict=True)):
            _compare(f"{name}[{number}]", *pair, found)
    elif isinstance(first, torch.Tensor):
        if first.dtype != second.dtype or not torch.equal(first, second):
            found.append(name)
    elif first != second:
        found.append(f"{name}: {first} and {second}")
