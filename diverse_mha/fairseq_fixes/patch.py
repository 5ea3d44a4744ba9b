"""Patches functions of fairseq, which offers no hooks."""

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
    """Set ``owner.name`` within a ``with`` block; it may be missing before."""
    original = getattr(owner, name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
