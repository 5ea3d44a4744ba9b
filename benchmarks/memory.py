"""Peak memory of a piece of work; on the CPU in a process of its own."""

import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import resident_bytes


def peak_memory(work: Callable, *arguments, device: torch.device, threads: int) -> int:
    """Measure the bytes that a function of a module needs at most, beside what there was before.

    On a GPU it is what torch allocates; on the CPU the resident memory of a fresh process beyond
    what it has after importing. The first of the arguments names what is measured.
    """
    if device.type == "cuda":
        gc.collect()  # what the one measured before left
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work(*arguments)
        return torch.cuda.max_memory_allocated(device) - before
    # A fresh process: fork would begin with this one's memory.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_measure, work, arguments, threads).result()
        except BrokenProcessPool:
            raise UserError(
                f"the process that measures the memory of {arguments[0]!r} was ended, perhaps "
                "because memory is out; try a smaller --batch-tokens or --shape"
            ) from None


def _measure(work: Callable, arguments: tuple, threads: int) -> int:
    torch.set_num_threads(threads)
    before, _ = resident_bytes()
    work(*arguments)
    return resident_bytes()[1] - before
