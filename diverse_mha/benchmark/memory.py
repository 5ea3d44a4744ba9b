"""Peak memory of training; on the CPU each variant in a process of its own."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch

from diverse_mha.benchmark.batches import stand_in_task
from diverse_mha.benchmark.shapes import Shape
from diverse_mha.benchmark.training import Trainee
from diverse_mha.benchmark.variants import variants_of
from diverse_mha.common.errors import UserError
from diverse_mha.common.machine import resident_bytes

TOO_LARGE = "the GPU's memory does not hold the variants together"
STEPS = 2  # the second one meets the optimiser's state, which the first one made


def measure_memory(
    name: str,
    shape: Shape,
    batch: dict,
    *,
    device: torch.device,
    precision: str,
    threads: int,
    seed: int,
    compile: bool = False,
) -> int:
    """Measure the peak of parameters, gradients, optimiser state and activations.

    Args:
        name: the variant.
        shape: shape of the model.
        batch: on the CPU.
        device: where to train. On a GPU it is what torch allocated; on the CPU
            the process's resident memory beyond what it has after importing.
        precision: a key of ``DTYPES``.
        threads: threads on the CPU.
        seed: seed of the parameters.
        compile: train with ``--compile``.

    Returns:
        Bytes.

    Raises:
        UserError: if the process was ended, which the system does when memory is out.
    """
    settings = {"precision": precision, "seed": seed, "compile": compile}
    if device.type == "cuda":  # torch counts what it allocates itself
        return _measure_here(name, shape, batch, str(device), threads, settings)
    # A fresh process: fork would begin with this one's memory.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        job = pool.submit(_measure_here, name, shape, batch, str(device), threads, settings)
        try:
            return job.result()
        except BrokenProcessPool as error:
            raise UserError(
                f"the process that measures the memory of {name!r} was ended, perhaps because "
                "memory is out; try a smaller --batch-tokens or --shape"
            ) from error


def _measure_here(
    name: str, shape: Shape, batch: dict, device: str, threads: int, settings: dict
) -> int:
    device = torch.device(device)
    torch.set_num_threads(threads)
    batch = to_device(batch, device)
    task = stand_in_task(shape.vocabulary)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    else:
        before, _ = resident_bytes()
    trainee = Trainee(variants_of(shape)[name], shape.options(), task, device=device, **settings)
    for _ in range(STEPS):
        trainee.step(batch)
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) - before
    return resident_bytes()[1] - before


def peak_beside(
    make: Callable[..., Callable], arguments: tuple, small: tuple, threads: int
) -> float:
    """Measure what a step needs at most, beside what there was before it, in a fresh process.

    Args:
        make: builds the step.
        arguments: for ``make``.
        small: the same of a small step, which loads and builds what is needed on first use.
        threads: of torch.

    Returns:
        MiB of the whole process, by the operating system's high-water mark (Linux).
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_beside, (make, arguments, small, threads))


def _measure_beside(make: Callable, arguments: tuple, small: tuple, threads: int) -> float:
    torch.set_num_threads(threads)
    make(*small)()
    step = make(*arguments)
    before, _ = resident_bytes()
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the mark starts anew
    step()
    return (resident_bytes()[1] - before) / 2**20


def to_device(batch: dict, device: torch.device) -> dict:
    """Copy a batch, with everything nested in it, to a device."""
    return {
        key: to_device(value, device)
        if isinstance(value, dict)
        else value.to(device)
        if isinstance(value, torch.Tensor)
        else value
        for key, value in batch.items()
    }
