"""Splits a batch by length, so that short sentences are not padded to the longest."""

import torch
from torch import Tensor

_WORTH = 0.1  # share of the positions that a second pass must save


def split_by_length(lengths: Tensor) -> tuple[Tensor, Tensor] | None:
    """Split the rows of a batch, ordered by length, where the two groups have fewest positions.

    With lengths l_1 >= ... >= l_n the first s rows take s l_1 positions, padding counted, and the
    others (n - s) l_{s+1}.

    Args:
        lengths: (n,) whole numbers, at least 1.

    Returns:
        Row numbers of the long and the short group; None if that saves a tenth or less.
    """
    ordered, rows = lengths.sort(descending=True, stable=True)
    longer = torch.arange(1, len(rows), device=lengths.device)
    positions = longer * ordered[0] + (len(rows) - longer) * ordered[1:]
    if not len(positions) or positions.min() >= (1 - _WORTH) * len(rows) * ordered[0]:
        return None
    cut = int(positions.argmin()) + 1
    return rows[:cut], rows[cut:]
