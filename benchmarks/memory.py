"""Peak memory of a piece of work; on the CPU in a process of its own."""

import gc
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.machine import resident_bytes
from diverse_mha.common.processes import ended_in_order, run_to_end

CLONE = Path(__file__).parents[1]
TOO_LARGE = "the GPU's memory does not hold what is measured"


def peak_memory(work: Callable, *arguments, device: torch.device, threads: int) -> int:
    """Measure the bytes that a function of a module needs at most, beside what there was before.

    On a GPU it is what torch allocates; on the CPU the resident memory of a fresh process beyond
    what it has after importing. The first of the arguments names what is measured.
    """
    if device.type == "cuda":
        return _measure(work, arguments, device, threads)
    # A fresh process: fork would begin with this one's memory.
    search = {"PYTHONPATH": os.pathsep.join([str(CLONE), *filter(None, sys.path)])}
    with ended_in_order(), tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as found:
        pickle.dump((work, arguments, device, threads), given)
        given.seek(0)
        code, said = run_to_end(
            [sys.executable, "-P", "-m", "benchmarks.memory"],
            **{"stdin": given, "stdout": found, "env": os.environ | search},
        )
        found.seek(0)
        if code > 128:
            raise UserError(
                f"the process that measures the memory of {arguments[0]!r} was ended, perhaps "
                "because memory is out; try a smaller --batch-tokens or --shape"
            )
        if code:
            raise RuntimeError(said)
        return int(found.read().split()[-1])


def _measure(work: Callable, arguments: tuple, device: torch.device, threads: int) -> int:
    torch.set_num_threads(threads)
    if device.type == "cuda":
        gc.collect()  # what the one measured before left
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work(*arguments)
        return torch.cuda.max_memory_allocated(device) - before
    before, _ = resident_bytes()
    work(*arguments)
    return resident_bytes()[1] - before


if __name__ == "__main__":
    print(_measure(*pickle.load(sys.stdin.buffer)))
