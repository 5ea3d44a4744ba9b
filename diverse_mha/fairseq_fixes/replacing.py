"""A function of ours in the place of one of fairseq's, which offers no hook there."""

import functools
from collections.abc import Callable
from typing import Any


def in_place_of(owner: Any, name: str) -> Callable[[Callable], Callable]:
    """Put a function into the place of one of fairseq's, which it gets as its first argument."""
    theirs = getattr(owner, name)

    def replace(ours: Callable) -> Callable:
        @functools.wraps(theirs)
        def replaced(*args, **kwargs):
            return ours(theirs, *args, **kwargs)

        setattr(owner, name, replaced)
        return ours

    return replace
