"""Seeded choices that come out the same on every platform and Python version.

Only ``random.Random.random`` is promised to stay the same for a seed, so everything here is
made from it.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Chance:
    """A stream of seeded choices."""

    def __init__(self, seed: int):
        self._random = random.Random(seed).random

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random() < probability

    def index(self, size: int) -> int:
        """Return a whole number below ``size``, each as likely."""
        return int(self._random() * size)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items, each as likely."""
        return items[self.index(len(items))]

    def pick_early(self, items: Sequence[Item]) -> Item:
        """Return one of the items, the n-th with a weight of 1 / (n + 4): few often, many rarely.

        Words of natural languages are spread about like this (Zipf's law).
        """
        weights = [1 / (n + 4) for n in range(1, len(items) + 1)]
        left = self._random() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            left -= weight
            if left < 0:
                return item
        return items[-1]
