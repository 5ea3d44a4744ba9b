"""Tasks side by side, each in a fork of this process; what they say comes out line by line.

A fork has its own main thread, so a task may wait for commands and catch signals as it does when
it runs by itself. It leads a session of its own: Ctrl-C reaches this process alone, which then
ends every task, and a task ends its command.
"""

import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from diverse_mha.common.processes import CAUGHT, GRACE_SECONDS, Interrupted, interruptible
from diverse_mha.training.reproduce import terminal

Task = Callable[[int], None]


@dataclass
class _Child:
    name: str
    slot: int
    pid: int
    unread: bytes = b""
    passing: str = ""


def side_by_side(tasks: Sequence[tuple[str, Task]], jobs: int) -> None:
    """Carry out tasks in their order, at most ``jobs`` at a time.

    Args:
        tasks: Name and function; it is called with the number of its place, 0 to ``jobs`` - 1,
            that no other task has meanwhile, and what it returns is lost.
        jobs: How many at a time.

    Raises:
        Interrupted: if a signal came; all tasks and their commands have ended.
    """
    waiting, running = list(tasks), {}
    selector = selectors.DefaultSelector()
    with interruptible(lambda: _end_all(running.values())):
        while waiting or running:
            while waiting and len(running) < jobs:
                slot = min(set(range(jobs)) - {child.slot for child in running.values()})
                # No signal while a child is not yet in the list of those to end, nor has handlers.
                signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)
                pipe, child = _start(*waiting.pop(0), slot)
                running[pipe] = child
                signal.pthread_sigmask(signal.SIG_UNBLOCK, CAUGHT)
                selector.register(pipe, selectors.EVENT_READ)
            for key, _ in selector.select():
                if not _pass_on(key.fd, running):
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _wait(running.pop(key.fd))
            _show(running.values())
    terminal.clear()


def _start(name: str, task: Task, slot: int) -> tuple[int, _Child]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return reading, _Child(name, slot, pid)
    code = 1
    try:
        os.setsid()
        os.close(reading)
        terminal.hand_on(lambda text, end: _write(writing, [text, end]))
        with interruptible():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, CAUGHT)
            task(slot)
        code = 0
    except Interrupted as stopped:
        code = 128 + stopped.number
    except BrokenPipeError:  # whoever started us is gone
        pass
    except BaseException:
        with suppress(OSError):
            terminal.say(traceback.format_exc())
    finally:
        os._exit(code)


def _write(pipe: int, message: list) -> None:
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(pipe, line) :]


def _pass_on(pipe: int, running: dict[int, _Child]) -> bool:
    """Print what a task says; False once it has ended."""
    child, read = running[pipe], os.read(pipe, 65536)
    *lines, child.unread = (child.unread + read).split(b"\n")
    for line in lines:
        text, passing = json.loads(line)
        if passing:
            child.passing = text
        else:
            terminal.say(text)
    return bool(read)


def _wait(child: _Child) -> None:
    _, status = os.waitpid(child.pid, 0)
    if os.WIFSIGNALED(status):  # else the task has said why itself
        name = signal.Signals(os.WTERMSIG(status)).name
        terminal.say(f"{child.name}: FAILED: its process was ended by {name}")


def _show(running: Iterable[_Child]) -> None:
    """Show how far the tasks are, in one line: number and last words of each."""
    parts = []
    for child in running:
        head, _, rest = child.passing.partition("] ")
        parts += [f"{head}] {rest.rpartition(': ')[2]}"] if rest else [child.passing]
    terminal.say("   ".join(filter(None, parts)), end=True)


def _end_all(running: Iterable[_Child]) -> None:
    for child in running:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)
    # A task gives its command that long before SIGTERM and SIGKILL, each.
    deadline = time.monotonic() + 2 * GRACE_SECONDS + 5
    for child in running:
        while not os.waitpid(child.pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.02)
