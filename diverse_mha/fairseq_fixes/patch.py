"""Patches functions of fairseq, which has no hooks for changing them."""

import contextlib
import functools
import sys
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


def training_programs() -> list[Any]:
    """Return the loaded modules of fairseq's training.

    It is ``__main__`` in ``python -m fairseq_cli.train``, and fairseq-hydra-train loads it after
    the plugin, so that its functions cannot be patched on import.
    """
    modules = (sys.modules.get(name) for name in ("fairseq_cli.train", "__main__"))
    return [module for module in modules if hasattr(module, "validate_and_save")]


def patch_training(name: str, ours: Callable) -> None:
    """Patch a function of fairseq's training, once; ``ours`` gets the original first."""
    for module in training_programs():
        if getattr(getattr(module, name), "patched_by", None) is not ours:
            patch(module, name)(ours)
            getattr(module, name).patched_by = ours


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
