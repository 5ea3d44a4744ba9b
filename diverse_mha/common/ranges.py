"""Ranges of numbers: the legal values of an option or argument."""

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Range(NamedTuple):
    """The legal values of an option or argument.

    Attributes:
        words: description of the values, as in "must be 1 or more".
        legal: returns True for a legal value.
        kind: name of the values' type, which precedes ``words`` in messages, such as "a number ".
    """

    words: str
    legal: Callable[[Any], bool]
    kind: str = ""

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError if ``value`` is illegal; ``name`` is the argument's name."""
        if not self.legal(value):
            raise ValueError(f"{name} is {value!r}; expected {self.kind}{self.words}")

    def parse_int(self, text: str) -> int:
        """Parse a whole number; for argparse's ``type``."""
        return self._read(int, text)

    def parse_float(self, text: str) -> float:
        """Parse a number; for argparse's ``type``."""
        return self._read(float, text)

    def _read(self, kind: type, text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan  # outside every range
        if not self.legal(value):
            raise argparse.ArgumentTypeError(f"{text}: expected {self.kind}{self.words}")
        return value


def at_least(least: int) -> Range:
    """Return the range of whole numbers from ``least`` up."""

    def legal(value):
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    return Range(f"{least} or more", legal, "a whole number, ")


def between(least: float, most: float) -> Range:
    """Return the range of numbers from ``least`` to ``most``."""
    return Range(f"from {least:g} to {most:g}", lambda value: least <= value <= most, "a number ")


ANY_COUNT, COUNT, SEVERAL = map(at_least, (0, 1, 2))
RATE = Range("at least 0 and below 1", lambda value: 0 <= value < 1)
UNIT = between(0, 1)
SHARE = Range("above 0 and at most 1", lambda value: 0 < value <= 1)
NOT_NEGATIVE = Range("0 or positive", lambda value: 0 <= value < math.inf, "a finite number, ")
POSITIVE = Range("a positive number", lambda value: 0 < value < math.inf)
