"""Where a training step goes: ``python -m diverse_mha.benchmark.profile``.

Steps of one variant under torch's profiler; the operators' own time, put together by kind. On a
GPU the kernels' time. The share of matrix products is what no implementation gets around.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from diverse_mha.benchmark.batches import batches_for, stand_in_task
from diverse_mha.benchmark.memory import to_device
from diverse_mha.benchmark.options import add_numbers
from diverse_mha.benchmark.shapes import SHAPES
from diverse_mha.benchmark.training import DTYPES, Trainee, check_precision, find_device
from diverse_mha.benchmark.variants import STOCK, choose, variants_of
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli

# By kind, parts of the names of operators; the first that fits counts.
KINDS = {
    "operators of this package": (
        *("MeanHSIC", "MeanSRIP", "MeanPairwiseCosine"),
        *("FusedLoss", "Recomputed", "ChunkedNetwork"),
    ),
    "optimiser": ("Optimizer.", "_fused_adam", "addcdiv", "addcmul", "_foreach"),
    "attention kernel": ("scaled_dot_product", "flash", "efficient_attention"),
    "matrix products": ("mm", "gemm", "linear", "matmul", "cutlass"),
    "softmax and token loss": ("softmax", "nll_loss", "gather", "logsumexp"),
    "dropout": ("dropout", "bernoulli", "random", "rand"),
    "layer norm": ("layer_norm",),
    "embedding": ("embedding", "index"),
    "copies and fills": ("copy", "clone", "fill", "zero", "cat", "contiguous", "memcpy", "empty"),
}
REST = "the rest (additions, activations, sums)"


class Share(NamedTuple):
    """One kind of operator in a step."""

    kind: str
    milliseconds: float  # of its operators themselves, a step
    part: float  # of the whole
    largest: str  # the operator with the most time


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog="diverse_mha.benchmark.profile",
        description="Show what kinds of operators take the time of a training step.",
    )
    parser.add_argument("--shape", default="small", choices=SHAPES, help="default: small")
    parser.add_argument(
        "--variants", default=STOCK, metavar="NAMES", help="as for the benchmark; stock is there"
    )
    add_numbers(parser, {"batch-tokens": (None, "default: the shape's")}, least=16)
    add_numbers(
        parser,
        {
            "steps": (3, "steps after one of warm-up"),
            "threads": (torch.get_num_threads(), "threads on the CPU"),
        },
    )
    parser.add_argument("--precision", default="fp32", choices=DTYPES)
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is a GPU)")
    return parser


def kind_of(operator: str) -> str:
    """Name the kind of an operator of torch, or of the package."""
    for kind, parts in KINDS.items():
        if any(part in operator for part in parts):
            return kind
    return REST


def group(times: Iterable[tuple[str, float]], steps: int) -> list[Share]:
    """Put operators together by kind, the costliest first.

    Args:
        times: names of operators and their own time in microseconds.
        steps: how many steps these are.
    """
    kinds = defaultdict(dict)
    for operator, microseconds in times:
        own = kinds[kind_of(operator)]
        own[operator] = own.get(operator, 0.0) + microseconds
    whole = sum(sum(own.values()) for own in kinds.values()) or 1.0
    shares = [
        Share(
            kind, sum(own.values()) / 1000 / steps, sum(own.values()) / whole, max(own, key=own.get)
        )
        for kind, own in kinds.items()
    ]
    return sorted(shares, key=lambda share: -share.milliseconds)


def measure(name: str, args: argparse.Namespace, device: torch.device) -> list[Share]:
    """Profile the steps of one variant."""
    shape = SHAPES[args.shape]
    trainee = Trainee(
        *(variants_of(shape)[name], shape.options(), stand_in_task(shape.vocabulary)),
        **{"device": device, "precision": args.precision, "seed": 1},
    )
    tokens = args.batch_tokens or shape.batch_tokens
    drawn = batches_for(shape, args.steps + 1, tokens, shape.mean_length, seed=1)
    first, *batches = (to_device(batch, device) for batch in drawn)
    trainee.step(first)
    gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    with profile(activities=activities) as profiler:
        for batch in batches:
            trainee.step(batch)
    own = "self_device_time_total" if gpu else "self_cpu_time_total"
    return group(((e.key, getattr(e, own)) for e in profiler.key_averages()), len(batches))


def to_markdown(found: dict[str, list[Share]]) -> str:
    """Lay out the shares of every variant, a table each."""
    lines = []
    for name, shares in found.items():
        total = sum(share.milliseconds for share in shares)
        lines += [f"`{name}`, {total:.0f} ms a step", "", "| kind | ms | share | largest |"]
        lines.append("| --- | ---: | ---: | --- |")
        for share in shares:
            lines.append(
                f"| {share.kind} | {share.milliseconds:.1f} | {100 * share.part:.1f} % "
                f"| `{share.largest[:60]}` |"
            )
        lines.append("")
    return "\n".join(lines)


def run(arguments: Sequence[str]) -> int:
    """Profile and print; return the exit code."""
    args = build_parser().parse_args(arguments)
    names = choose(args.variants, variants_of(SHAPES[args.shape]))
    device = find_device(args.device)
    check_precision(args.precision, device)
    torch.set_num_threads(args.threads)
    print(to_markdown({name: measure(name, args, device) for name in names}))
    return 0


if __name__ == "__main__":
    run_cli(lambda: run(sys.argv[1:]))
