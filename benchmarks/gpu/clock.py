"""The time of a single call."""

import time
from collections.abc import Callable
from statistics import median

import torch

from benchmarks.rounds import clock_for


def milliseconds(
    work: Callable, device: torch.device, count: int = 20, warm_up: int = 3
) -> tuple[float, float]:
    """Return the median of a call's time on the device, and until the host goes on."""
    clock, host = clock_for(device), []

    def timed(_) -> None:
        begun = time.perf_counter()
        work()
        host.append(time.perf_counter() - begun)

    on_device = [clock(timed, {})[0] for _ in range(warm_up + count)]
    return tuple(round(1e3 * median(times[warm_up:]), 4) for times in (on_device, host))
