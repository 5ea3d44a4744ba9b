"""Commands with their output in a log, and tasks that wait for them, several at a time.

Importing torch and fairseq takes seconds, which at the smoke scale is most of a run. So a command
that is a Python module can be run in a fork of this process, which has imported them already; it
is the same command, started half way.
"""

import contextlib
import os
import runpy
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from typing import BinaryIO, NamedTuple

import torch

import diverse_mha
from diverse_mha.common.places import ROOT
from diverse_mha.common.processes import CAUGHT, Command, end, stoppable
from diverse_mha.training import launch
from experiments.terminal import show


class Waiting(NamedTuple):
    """What a task waits for: a command, or None for what others do; its name, how far it is."""

    command: Command | None
    name: str
    words: str


Task = Callable[[int], Iterator[Waiting]]


def side_by_side(tasks: Sequence[Task], jobs: int) -> None:
    """Carry out tasks in their order, at most ``jobs`` at a time.

    Each is called with the number of its place, 0 to ``jobs`` - 1, that no other task has
    meanwhile, and yields for as long as it waits.

    Raises:
        Interrupted: If a signal came. After this and any other exception all commands have ended.
    """
    tasks = list(tasks)
    places = {number: _one_by_one(tasks, number) for number in range(jobs)}
    states: dict[int, Waiting] = {}
    with stoppable() as check:
        try:
            while places:
                check()
                for number, place in list(places.items()):
                    state = next(place, None)
                    if state is None:
                        del places[number]
                        states.pop(number, None)
                    else:
                        states[number] = state
                _show(list(states.values()))
                time.sleep(0.02)
        except BaseException:
            end([state.command for state in states.values() if state.command is not None])
            raise
        finally:
            for place in places.values():
                place.close()  # which gives back what its task holds


def _one_by_one(tasks: list[Task], number: int) -> Iterator[Waiting]:
    while tasks:
        yield from tasks.pop(0)(number)


def _show(states: Sequence[Waiting]) -> None:
    """Show how far the tasks are, in one line; of several the names up to the first blank."""
    if len(states) == 1:
        show(states[0].name + states[0].words)
    else:
        show("   ".join(f"{state.name.split()[0]} {state.words}" for state in states))


def import_everything() -> None:
    """Import what the forks need, before the first of them."""
    # Hydra warns of how fairseq calls it as soon as that is imported.
    warnings.filterwarnings("ignore", category=UserWarning, message=r"\nThe version_base")
    import fairseq.options  # noqa: F401
    import fairseq_cli.generate  # noqa: F401
    import fairseq_cli.hydra_train  # noqa: F401
    import sacremoses  # noqa: F401
    from sacrebleu.metrics import BLEU  # noqa: F401

    diverse_mha.register()
    torch.set_num_threads(1)  # a fork would wait for the threads that this process has started


def start_logged(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Command:
    """Start a command line in the project's folder, its output at the end of a log."""
    with log.open("ab") as output:
        _say(output, words)
        return Command.start(
            words,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
            close_fds=False,  # a lock that the caller made inheritable stays with the command
        )


def start_forked(
    module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
) -> Command:
    """Start a Python module, as ``python -m`` does, in a fork of this process.

    In all else it is :func:`start_logged`. The launcher would become another program; the module
    that it starts is run in its place.
    """
    if module == launch.__name__:
        module, arguments = _started_by_launch(arguments)
    with log.open("ab") as output:
        _say(output, ["python", "-m", module, *arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _be(module, arguments, output.fileno(), environment)
        return Command(pid)


def _started_by_launch(arguments: Sequence[str]) -> tuple[str, list[str]]:
    with contextlib.chdir(ROOT):  # the recipe's name is relative to it
        ((command, _),) = launch.commands(launch.parse(arguments), gpus=0, port=0)
    place = command.index("-m")  # what comes before is options of Python, for its warnings
    return command[place + 1], command[place + 2 :]


def _be(module: str, arguments: Sequence[str], output: int, environment: Mapping[str, str]) -> None:
    """In the child: run the module and end the process."""
    code = 1
    try:
        os.setsid()
        for number in CAUGHT:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # Python's own streams may be something else, under a test runner for one.
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        os.chdir(ROOT)
        os.environ.update(environment)
        sys.argv = [module, *arguments]
        warnings.filterwarnings("ignore", category=UserWarning)
        try:
            # Tiny tensors: a second thread costs more than it brings, most of all on a busy
            # machine, where the threads spin while they wait for each other.
            threads = os.environ.get("OMP_NUM_THREADS") or "1"
            torch.set_num_threads(int(threads.partition(",")[0]))
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as stop:
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _say(output: BinaryIO, command: Sequence[str]) -> None:
    output.write(f"\n$ {' '.join(map(str, command))}\n".encode())
    output.flush()


def last_line(log: Path) -> str:
    """Return the last line that says something of a log's last command, for a one-line message."""
    last = ("\n" + log.read_text(encoding="utf-8", errors="replace")).rpartition("\n$ ")[2]
    said = [line.strip() for line in last.splitlines() if line.strip()]
    errors = [line for line in said if line.startswith("error: ")]
    return (errors or said or [""])[-1]
