"""The papers' numbers of sentence pairs, and how a prepared corpus compares with them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}


@dataclass(frozen=True)
class PaperCount:
    """A number of pairs that a paper, or a well-known recipe, states.

    Attributes:
        who: The paper's key, as in docs/results.md, or the name of the recipe.
        split: "train", "valid" or "test".
        stated: The number as it is stated: "223,162", "160k", "4.5M". It stands for all
            numbers that round to it.
        note: What is known about a difference; printed with it.
    """

    who: str
    split: str
    stated: str
    note: str = ""

    def interval(self) -> tuple[float, float]:
        """Return the smallest and the largest number of pairs that the statement fits."""
        match = re.fullmatch(r"([\d,]+)(?:\.(\d+))?([kM]?)", self.stated)
        if match is None:
            raise ValueError(f"stated: {self.stated!r} is not a number such as 223,162 or 4.5M")
        whole, decimals, unit = match.groups(default="")
        value = float(f"{whole.replace(',', '')}.{decimals or 0}") * _UNITS[unit]
        half = _UNITS[unit] / 10 ** len(decimals) / 2 if unit else 0
        return value - half, value + half


def comparison(stated: Iterable[PaperCount], counts: Mapping[str, int]) -> Iterator[str]:
    """Yield one line for each statement; those that do not fit begin with "warning:".

    Args:
        stated: What the papers say.
        counts: The numbers of pairs there are, for each split.
    """
    for statement in stated:
        count = counts[statement.split]
        low, high = statement.interval()
        line = f"{statement.split}: {count:,} pairs; {statement.who} has {statement.stated}"
        if low <= count <= high:
            yield f"{line}: fits"
            continue
        off = f"{count - high:,.0f} too many" if count > high else f"{low - count:,.0f} too few"
        note = f" ({statement.note})" if statement.note else ""
        yield f"warning: {line}: {off}{note}"
