"""Processes forked from a server that has imported fairseq, so they start at once.

Each process has the state of a new one, and can be killed or limited without harm to pytest.
"""

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable

import torch
import torch._dynamo  # imported by optimizers, which takes a second
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train as fairseq_train

import diverse_mha  # noqa: F401  imported by the server, not by every process
from diverse_mha.common.errors import UserError
from tests.reliability import faults

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
# Starting a process polls all others, and an exit code can be read only once. Of two threads that
# poll the same process, one would get 255.
_ASKING = threading.Lock()


class Child:
    """A process that calls ``function(*arguments)``.

    Args:
        function: must be defined at the top level of a module.
        *arguments: arguments of the function.
    """

    def __init__(self, function: Callable, *arguments):
        self._reader, writer = _CONTEXT.Pipe(duplex=False)
        self.process = _CONTEXT.Process(target=_call, args=(writer, function, arguments))
        with _ASKING:
            self.process.start()
        writer.close()

    def result(self, seconds: float = 3600):
        """Wait for the process for up to ``seconds``.

        Returns:
            ``(code, outcome)``: the exit code (minus the number of a signal that ended the
            process), and the function's result or the message of its error.
        """
        outcome = None
        if self._reader.poll(seconds):
            try:
                outcome = self._reader.recv()
            except EOFError:  # the process was killed
                pass
        with _ASKING:
            self.process.join(seconds)
        assert self.process.exitcode is not None, "still running"
        return self.process.exitcode, outcome


def call(function: Callable, *arguments):
    """Call a function in a new process and return its result."""
    code, outcome = Child(function, *arguments).result()
    assert code == 0, outcome
    return outcome


def _call(writer, function, arguments) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    torch.set_num_threads(1)
    try:
        writer.send(function(*arguments))
    except UserError as error:
        writer.send(f"error: {error}")
        raise
    except Exception:
        writer.send(traceback.format_exc())
        raise


def train(words: list[str], fault: "faults.Fault | None" = None) -> int:
    """Run ``fairseq-train`` with a fault; return the number of checkpoint writes."""
    count = faults.arm(fault)
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    fairseq_train.main(convert_namespace_to_omegaconf(args))
    return count()
