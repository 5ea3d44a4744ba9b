"""Processes that start in milliseconds: forked off a server that has imported fairseq once.

Each has the state of a fresh process, and can be killed or limited without harm to pytest.
"""

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable

import torch
import torch._dynamo  # the optimizers import it, which takes a second
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train as fairseq_train

import diverse_mha  # noqa: F401  imported by the server, not by every process
from diverse_mha.common.errors import UserError
from tests.reliability import faults

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
# Starting a process asks after all others, and an exit code can be read only once: of two threads
# that ask after the same process, one would see 255.
_ASKING = threading.Lock()


class Child:
    """A process that calls ``function(*arguments)``.

    Args:
        function: at the top level of a module.
        *arguments: what it is called with.
    """

    def __init__(self, function: Callable, *arguments):
        self._reader, writer = _CONTEXT.Pipe(duplex=False)
        self.process = _CONTEXT.Process(target=_call, args=(writer, function, arguments))
        with _ASKING:
            self.process.start()
        writer.close()

    def result(self, seconds: float = 3600):
        """Wait for the end.

        Returns:
            ``(code, said)``: the exit code, below 0 a signal, and what the function returned,
            or the message of the error that it raised.
        """
        said = None
        if self._reader.poll(seconds):
            try:
                said = self._reader.recv()
            except EOFError:  # killed
                pass
        with _ASKING:
            self.process.join(seconds)
        assert self.process.exitcode is not None, "still running"
        return self.process.exitcode, said


def call(function: Callable, *arguments):
    """Call a function in a process of its own and return what it returns."""
    code, said = Child(function, *arguments).result()
    assert code == 0, said
    return said


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
    """Train as ``fairseq-train`` does, with a fault, and return how many faults there could be."""
    count = faults.arm(fault)
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    fairseq_train.main(convert_namespace_to_omegaconf(args))
    return count()
