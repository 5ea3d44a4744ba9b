"""Measures the peak memory of a function; on the CPU in a process of its own."""

import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.machine import resident_bytes


def peak_memory(work: Callable, *arguments, device: torch.device, threads: int) -> int:
    """Return the peak memory, in bytes, that a top-level function adds.

    On a GPU this is memory that torch allocates. On the CPU it is the resident memory that a new
    process adds after its imports. The first of ``arguments`` names the function in messages.
    """
    if device.type == "cuda":
        gc.collect()  # frees memory of the previous measurement
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work(*arguments)
        return torch.cuda.max_memory_allocated(device) - before
    # A new process, because a fork would start with the memory of this process.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_measure, work, arguments, threads).result()
        except BrokenProcessPool:
            raise UserError(
                f"the process that measures the memory of {arguments[0]!r} was killed, perhaps "
                "for lack of memory; try a smaller --batch-tokens or --shape"
            ) from None


def _measure(work: Callable, arguments: tuple, threads: int) -> int:
    torch.set_num_threads(threads)
    before, _ = resident_bytes()
    work(*arguments)
    return resident_bytes()[1] - before
