"""Steps of several variants in turn, each with a clock on it."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

Step = Callable[[dict], Any]
Clock = Callable[[Step, dict], tuple[float, Any]]


def clock_for(device: torch.device) -> Clock:
    """Choose the clock: CUDA events on a GPU, which runs behind the program, else wall time."""
    return _time_on_gpu if device.type == "cuda" else _time_on_cpu


def _time_on_cpu(step: Step, batch: dict) -> tuple[float, Any]:
    start = time.perf_counter()
    outcome = step(batch)
    return time.perf_counter() - start, outcome


def _time_on_gpu(step: Step, batch: dict) -> tuple[float, Any]:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    outcome = step(batch)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000, outcome


def turns(names: list[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Who steps when: everybody once a round, each round beginning with the next one.

    Yields:
        (round from 0, name).
    """
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            yield number, name


def run_rounds(
    steps: Mapping[str, Step],
    batches: list[dict],
    warm_up: int,
    clock: Clock,
    check: Callable[[str, Any], None],
    progress: Callable[[Iterator, int], Iterator] = lambda sequence, total: sequence,
) -> dict[str, list[float]]:
    """Let every variant do one step on every batch, a batch a round.

    A machine that slows down for a while slows all variants of those rounds, and
    nobody always follows the same one: the ratio within a round is what to trust.

    Args:
        steps: by name, what does one step on a batch.
        batches: one a round, on the device.
        warm_up: first rounds to leave out.
        clock: see ``clock_for``.
        check: called with the name and what the step returned, off the clock.
        progress: wraps the sequence of turns, given their number.

    Returns:
        Seconds of every step after the warm-up, by name, in the order of the rounds.
    """
    seconds = {name: [] for name in steps}
    sequence = turns(list(steps), len(batches))
    for number, name in progress(sequence, len(steps) * len(batches)):
        elapsed, outcome = clock(steps[name], batches[number])
        check(name, outcome)
        if number >= warm_up:
            seconds[name].append(elapsed)
    return seconds
