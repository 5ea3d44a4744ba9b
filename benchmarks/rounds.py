"""Times steps of several variants in turn, and summarises the times."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

Step = Callable[[dict], Any]
Clock = Callable[[Step, dict], float]
RESAMPLES = 2000  # bootstrap samples


def clock_for(device: torch.device) -> Clock:
    """Return the clock: CUDA events on a GPU, which runs asynchronously, else wall time."""
    return _time_on_gpu if device.type == "cuda" else _time_on_cpu


def _time_on_cpu(step: Step, batch: dict) -> float:
    start = time.perf_counter()
    step(batch)
    return time.perf_counter() - start


def _time_on_gpu(step: Step, batch: dict) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    step(batch)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


def run_rounds(
    steps: Mapping[str, Step],
    batches: Sequence[dict],
    warm_up: int,
    clock: Clock,
) -> dict[str, list[float]]:
    """Time one step of every variant on every batch, one batch per round, with rotating order.

    If the machine is slow for a while, all variants of those rounds are slow, so ratios within a
    round are reliable.

    Args:
        steps: variant -> function that does a step on a batch.
        batches: one batch for each round.
        warm_up: number of rounds at the start that are not timed.
        clock: returns the seconds of a step on a batch.

    Returns:
        Seconds of each timed round, by variant.
    """
    seconds, names = {name: [] for name in steps}, list(steps)
    for number, batch in enumerate(bar(batches, "time")):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            elapsed = clock(steps[name], batch)
            if number >= warm_up:
                seconds[name].append(elapsed)
    return seconds


def bar(sequence, text: str) -> tqdm:
    """Return a progress bar over a sequence, shown on a terminal only."""
    return tqdm(sequence, desc=f"{text:<6}", leave=False, disable=None)


def summarise(seconds: Mapping[str, Sequence[float]], baseline: str) -> dict[str, dict]:
    """Summarise the times of :func:`run_rounds`, by variant.

    ``steps_per_second`` is 1 / median time. ``ratio`` is the median over rounds of baseline time /
    own time, above 1 = faster; ``ratio_low`` and ``ratio_high`` are its 95 % bootstrap interval.
    """
    reference = np.asarray(seconds[baseline], dtype=float)
    count = len(reference)
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    summaries = {}
    for name, times in seconds.items():
        own = np.asarray(times, dtype=float)
        lower, median, upper = (float(q) for q in np.percentile(own, [25, 50, 75]))
        ratios = reference / own
        low, high = np.percentile(np.median(ratios[drawn], axis=1), [2.5, 97.5])
        summaries[name] = {
            "median_seconds": median,
            "lower_quartile": lower,
            "upper_quartile": upper,
            "steps_per_second": 1 / median,
            "ratio": float(np.median(ratios)),
            "ratio_low": float(low),
            "ratio_high": float(high),
            "seconds": list(times),
        }
    return summaries
