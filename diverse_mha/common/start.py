"""The start of a command: what importing torch and fairseq need not do.

Importing them creates half a million objects, and nearly all stay. Collecting garbage meanwhile
takes 0.4 s and finds nothing. At its end a process collects several times more: 0.6 s.
The first optimizer, seed or model without memory imports torch's compiler, which nothing uses, in
1.8 s.
"""

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diverse_mha.common.on_import import after_import

RARELY = 200_000  # new objects between two collections
COMPILER = "torch._dynamo"

_usual: tuple[int, ...] | None = None  # thresholds to restore, while a command starts


def start_command() -> None:
    """Prepare the import of torch and fairseq; called first by a command of ours."""
    global _usual
    if "torch" in sys.modules or _usual is not None:
        return
    _usual = gc.get_threshold()
    gc.set_threshold(RARELY, *_usual[1:])
    after_import("torch._compile", _postpone_compiler)


@contextmanager
def uncollected() -> Iterator[None]:
    """Context manager: create objects without collecting garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def command_started() -> None:
    """Collect as usual from now on, but in a command none of the objects that exist already.

    Called when fairseq is imported. In a user's program the objects may be the user's.
    """
    global _usual
    if _usual is not None:
        gc.freeze()
        gc.set_threshold(*_usual)
        _usual = None


def _postpone_compiler() -> None:
    """Let torch import its compiler when something is compiled, and not for ``_disable_dynamo``.

    This decorator of torch's functions tells the compiler to leave them out. Until somebody imports
    the compiler, there is nothing to tell.
    """
    module = sys.modules["torch._compile"]
    original = module._disable_dynamo

    @functools.wraps(original)
    def disable(fn: Callable | None = None, recursive: bool = True, **more):
        if fn is None:
            return functools.partial(disable, recursive=recursive, **more)
        excluded = original(fn, recursive, **more)

        @functools.wraps(fn)
        def called(*args, **kwargs):
            return (excluded if COMPILER in sys.modules else fn)(*args, **kwargs)

        vars(called)["_torchdynamo_disable"] = True  # the compiler leaves it out, too
        return called

    vars(module)["_disable_dynamo"] = disable
