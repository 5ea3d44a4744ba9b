"""Finds checkpoints with equal weights among those that a command takes as different models.

``checkpoint_best.pt`` and ``checkpoint_last.pt`` are such a pair if the last epoch was the best.
Called by ``average``, by ``prune --curve``, and for ensembles by ``evaluate`` and ``translate``.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from diverse_mha.evaluation.states import open_state

Reader = Callable[[str], dict]
Pair = tuple[str, str]  # a checkpoint, and an earlier one that has its weights


def equal_weights(paths: Iterable[str | Path], read: Reader = open_state) -> Iterator[Pair]:
    """Yield each checkpoint that has the weights of an earlier one, with that one.

    ``read`` returns the content of a checkpoint.
    """
    models: dict[str, dict[str, Tensor]] = {}
    for path in map(str, paths):
        weights = read(path)["model"]
        earlier = next((name for name in models if _equal(models[name], weights)), None)
        if earlier is None:
            models[path] = weights
        else:
            yield path, earlier


def note_equal_weights(paths: Iterable[str | Path], what: str, read: Reader = open_state) -> None:
    """Print a note for each checkpoint whose weights count twice in ``what``."""
    for path, earlier in equal_weights(paths, read):
        print(
            f"note: {path} has the weights of {earlier}, which count twice in {what}; name one of "
            "them, unless you want that",
            file=sys.stderr,
        )


def _equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Return True if two models have equal parameters. The first that differs ends the reading."""
    return one.keys() == other.keys() and all(
        value.dtype == other[name].dtype and torch.equal(value, other[name])
        for name, value in one.items()
    )
