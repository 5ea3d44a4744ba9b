"""What a device can do at most: ``python -m benchmarks.ceiling``."""

import statistics
import sys
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.options import add_device, add_output, carry_out
from benchmarks.report import describe_machine
from benchmarks.rounds import clock_for
from benchmarks.training import DTYPES, Trainee
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli

# Large enough to fill a GPU, small enough for a CPU.
SIZES = {"cuda": (8192, 2**31), "cpu": (512, 2**24)}
TIMED, WARM_UP = 10, 3


def count_operations(trainee: Trainee, batch: dict) -> int:
    """Count the floating-point operations of the matrix products of one training step.

    A multiply-add counts twice. The step is carried out.
    """
    with FlopCounterMode(display=False) as counter:
        trainee.step(batch)
    return counter.get_total_flops()


def measure(device: torch.device) -> dict:
    """Time matrix products of random numbers in every precision, and copies, read and written."""
    size, volume = SIZES[device.type]
    rates = {}
    for name, dtype in DTYPES.items():
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        rates[name] = 2 * size**3 / _seconds(lambda a=a, b=b: a @ b, device)
    source = torch.empty(volume, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    copied = 2 * volume / _seconds(lambda: target.copy_(source), device)
    machine = describe_machine(device, torch.get_num_threads())
    return {"machine": machine, "operations_per_second": rates, "bytes_per_second": copied}


def _seconds(work, device: torch.device) -> float:
    clock = clock_for(device)
    times = [clock(lambda _: work(), {})[0] for _ in range(WARM_UP + TIMED)]
    return statistics.median(times[WARM_UP:])


def main(arguments: Sequence[str]) -> int:
    """Measure, print and return the exit code."""
    parser = OneLineParser(prog="benchmarks.ceiling", description=__doc__)
    add_device(parser)
    add_output(parser)
    args = parser.parse_args(arguments)
    return carry_out(lambda: measure(args.device), lay_out, args.output)


def lay_out(result: dict) -> str:
    """Say what :func:`measure` found."""
    rates = result["operations_per_second"].items()
    lines = [f"matrix product, {name}: {rate / 1e12:.3g} TFLOP/s" for name, rate in rates]
    lines.append(f"copy: {result['bytes_per_second'] / 1e12:.3g} TB/s, read and written")
    return "\n".join(lines)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
