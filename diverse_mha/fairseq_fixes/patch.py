"""Patches functions of fairseq, which has no hooks for changing them."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

_MISSING = object()


def patch(owner: Any, name: str) -> Callable[[Callable], Callable]:
    """Decorator: replaces ``owner.name`` by a function that gets the original as first argument."""
    original = getattr(owner, name)

    def replace(ours: Callable) -> Callable:
        @functools.wraps(original)
        def replaced(*args, **kwargs):
            return ours(original, *args, **kwargs)

        setattr(owner, name, replaced)
        return ours

    return replace


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Context manager: set ``owner.name`` in its block, even if ``owner`` inherits or lacks it."""
    original = vars(owner).get(name, _MISSING)  # not what an instance or subclass inherits
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
