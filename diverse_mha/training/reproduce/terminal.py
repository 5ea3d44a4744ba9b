"""What ``reproduce`` says: lines that stay, and one at a time that the next replaces."""

import sys
from collections.abc import Callable

WIDTH = 140  # of a line that is replaced; a longer one would wrap and stay

_sink: Callable[[str, bool], None] | None = None


def say(text: str, *, end: bool = False) -> None:
    """Print a line about a run; one that another will replace (``end``) only on a terminal."""
    if _sink is not None:
        _sink(text, end)
    elif not end:
        clear()
        print(text, flush=True)
    elif can_replace():
        print(f"\r\033[K{text[:WIDTH]}", end="", file=sys.stderr, flush=True)


def can_replace() -> bool:
    """Tell whether a line can replace another: only on a terminal."""
    return sys.stderr.isatty()


def clear() -> None:
    """Take the line away that waits to be replaced."""
    if _sink is None and can_replace():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def hand_on(sink: Callable[[str, bool], None]) -> None:
    """Have all that this process says from now on told to ``sink`` instead, as text and ``end``."""
    global _sink
    _sink = sink
