"""How the cost of a regulariser grows: ``python -m diverse_mha.benchmark.scaling``.

Forward and backward of every term on records of random heads, while the number of heads, layers
or sentences doubles and the rest stays. The exponent is the slope of log time against log size:
1 = linear, 0 = constant. Rounds are interleaved; times are medians.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence

import torch

from diverse_mha.attention import STATE_NAMES, HeadStates
from diverse_mha.benchmark.options import OUTPUT, add_numbers, carry_out, check_output
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli
from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.terms import DiversityTerms

TERMS = {
    "subspace": {"disagreement": "subspace"},
    "position": {"disagreement": "position"},
    "output": {"disagreement": "output"},
    "HSIC": {"hsic_weight": 1e-7},
    "orthogonality": {"orthogonality_weight": 1.0},
}
START = {"heads": 4, "layers": 2, "sentences": 32}
LENGTH, HEAD_DIM = 32, 64


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog="diverse_mha.benchmark.scaling",
        description="Time every regulariser, forward and backward, while the number of heads "
        f"(of {HEAD_DIM} dimensions), layers or sentences (of {LENGTH} tokens) doubles from "
        f"{', '.join(f'{value} {name}' for name, value in START.items())}.",
    )
    add_numbers(
        parser,
        {
            "doublings": (3, "how often each size doubles"),
            "rounds": (9, "rounds that count, after one of warm-up"),
            "threads": (torch.get_num_threads(), "threads on the CPU"),
        },
    )
    parser.add_argument("--output", **OUTPUT)
    return parser


def make_states(heads: int, layers: int, sentences: int) -> dict[str, list[HeadStates]]:
    """Make records of random heads of one encoder, as a forward pass hands them up."""
    generator = torch.Generator().manual_seed(1)

    def tensor(last: int) -> torch.Tensor:
        drawn = torch.randn(sentences, heads, LENGTH, last, generator=generator)
        return (drawn.softmax(dim=-1) if last == LENGTH else drawn).requires_grad_()

    sizes = {name: HEAD_DIM for name in STATE_NAMES} | {"weights": LENGTH, "logits": LENGTH}
    return {
        "encoder": [
            HeadStates(**{name: tensor(size) for name, size in sizes.items()})
            for _ in range(layers)
        ]
    }


def step(terms: DiversityTerms, states: dict[str, list[HeadStates]]) -> float:
    """Run the terms forward and backward; seconds."""
    start = time.perf_counter()
    sum(value.loss for value in terms.measure(states, sample_size=1).values()).backward()
    seconds = time.perf_counter() - start
    for record in states["encoder"]:
        for name in STATE_NAMES:
            getattr(record, name).grad = None
    return seconds


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds against log size, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    return statistics.linear_regression(x, y).slope


def measure(doublings: int, rounds: int) -> dict[str, dict[str, dict[int, float]]]:
    """Time everything: median seconds by what doubles, term and size."""
    terms = {n: DiversityTerms.from_config(DiversityConfig(**o)) for n, o in TERMS.items()}
    found = {}
    for growing, start in START.items():
        sizes = [start * 2**power for power in range(doublings + 1)]
        times = {name: {size: [] for size in sizes} for name in terms}
        states = {size: make_states(**{**START, growing: size}) for size in sizes}
        for turn in range(rounds + 1):
            for size in sizes:
                for name, term in terms.items():
                    seconds = step(term, states[size])
                    if turn:
                        times[name][size].append(seconds)
        found[growing] = {
            name: {size: statistics.median(values) for size, values in by_size.items()}
            for name, by_size in times.items()
        }
    return found


def to_markdown(found: dict[str, dict[str, dict[int, float]]]) -> str:
    """Lay the series out: milliseconds by size, and the exponent."""
    lines = []
    for growing, by_term in found.items():
        sizes = list(next(iter(by_term.values())))
        lines.append(f"| {growing} | " + " | ".join(map(str, sizes)) + " | exponent |")
        lines.append("| --- |" + " ---: |" * (len(sizes) + 1))
        for name, series in by_term.items():
            cells = [f"{1000 * value:.3g}" for value in series.values()]
            cells.append(f"{exponent(sizes, list(series.values())):.2f}")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join([*lines, "Milliseconds, forward and backward; exponent 1 = linear."])


def run(arguments: Sequence[str]) -> int:
    """Measure and print; return the exit code."""
    args = build_parser().parse_args(arguments)
    check_output(args.output)
    torch.set_num_threads(args.threads)
    return carry_out(lambda: measure(args.doublings, args.rounds), to_markdown, args.output)


if __name__ == "__main__":
    run_cli(lambda: run(sys.argv[1:]))
