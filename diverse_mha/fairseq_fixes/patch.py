"""Replaces functions of fairseq, which offers no hooks."""

import functools
from collections.abc import Callable
from typing import Any


def in_place_of(owner: Any, name: str) -> Callable[[Callable], Callable]:
    """Decorate a function that replaces ``owner.name`` and gets the original as first argument."""
    theirs = getattr(owner, name)

    def replace(ours: Callable) -> Callable:
        @functools.wraps(theirs)
        def replaced(*args, **kwargs):
            return ours(theirs, *args, **kwargs)

        setattr(owner, name, replaced)
        return ours

    return replace
