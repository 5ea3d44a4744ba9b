"""Steps of several variants in turn, each with a clock on it, and the figures of that."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

Step = Callable[[dict], Any]
Clock = Callable[[Step, dict], float]
RESAMPLES = 2000  # of the bootstrap


def clock_for(device: torch.device) -> Clock:
    """Choose the clock: CUDA events on a GPU, which runs behind the program, else wall time."""
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
    """Let every variant do one step on every batch, a batch a round, the next one first each time.

    A machine that slows down for a while slows all variants of those rounds, and
    nobody is always first: the ratio within a round is what to trust. The first ``warm_up`` rounds
    are left out of the seconds that are returned.
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
    """Show on a terminal how far a sequence is."""
    return tqdm(sequence, desc=f"{text:<6}", leave=False, disable=None)


def summarise(seconds: Mapping[str, Sequence[float]], baseline: str) -> dict[str, dict]:
    """Summarise interleaved rounds: times by variant, all of the same rounds in the same order.

    ``steps_per_second`` is at the median; ``ratio`` is the median over rounds of baseline time /
    own time, above 1 = faster, ``ratio_low`` and ``ratio_high`` its 95 % bootstrap interval.
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
