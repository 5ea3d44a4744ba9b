"""What ``reproduce`` says: lines that stay, and on a terminal one that the next replaces."""

import contextlib
import sys
from collections.abc import Iterator

from diverse_mha.common.errors import UserError, describe_os_error

WIDTH = 140  # of the line that is replaced; a longer one would wrap and stay

_shown = ""


def say(text: str) -> None:
    """Print a line that stays."""
    show("")
    print(text, flush=True)


def show(text: str) -> None:
    """Show a line on a terminal until another one comes."""
    global _shown
    if text != _shown and can_replace():
        print(f"\r\033[K{text[:WIDTH]}", end="", file=sys.stderr, flush=True)
        _shown = text


def can_replace() -> bool:
    """Tell whether a line can replace another: only on a terminal."""
    return sys.stderr.isatty()


@contextlib.contextmanager
def failure_told(head: str) -> Iterator[None]:
    """Where what is done fails, say why in one line that begins with ``head``, and go on."""
    try:
        yield
    except UserError as error:
        say(f"{head}FAILED: {error}")
    except OSError as error:
        say(f"{head}FAILED: {describe_os_error(error)}")
