"""Time and memory of routing alone: ``python -m diverse_mha.benchmark.routing``.

Every form does the same work, votes to capsules and back. The forms take turns within each
round, so that a machine that slows down slows all of them; the table has the median over the
rounds. Peak memory is measured apart, one fresh process a form.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from diverse_mha.aggregation import RoutingAggregation, em_routing, fused_routing, simple_routing
from diverse_mha.benchmark.memory import peak_beside
from diverse_mha.benchmark.options import add_numbers
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli

ROUTINGS = {"em-routing": em_routing, "simple-routing": simple_routing}
FORMS = ("plain", "chunked", "compiled", "kernel")
OPTIONS = {"iterations": 3}


def step_of(routing: str, form: str, shape: tuple[int, ...]) -> Callable[[], None]:
    """One forward and backward pass of the routing algorithm alone.

    Args:
        routing: ``"em-routing"`` or ``"simple-routing"``.
        form: one of ``FORMS``.
        shape: (K, H, N, D) of the votes.

    Returns:
        A function that does one such pass.
    """
    votes = torch.randn(shape, requires_grad=True)
    grad = torch.randn(shape[0], *shape[2:])

    def route() -> Tensor:
        if form == "plain":
            return ROUTINGS[routing](votes, **OPTIONS)
        return fused_routing(ROUTINGS[routing], votes, OPTIONS, backend=form)

    return lambda: torch.autograd.grad(route(), votes, grad) and None


def module_step_of(routing: str, form: str, shape: tuple[int, ...]) -> Callable[[], None]:
    """One forward and backward pass of the whole module, linear layers included.

    Args:
        routing: ``"em-routing"``, ``"simple-routing"`` or ``"linear"``, the projection that
            routing replaces.
        form: ``"plain"`` for plain autograd, otherwise what the module chooses.
        shape: (K, H, N, D) of the votes.

    Returns:
        A function that does one such pass.
    """
    tokens, num_heads, capsules, dims = shape
    width = capsules * dims
    module = (
        nn.Linear(width, width)
        if routing == "linear"
        else RoutingAggregation(
            width, num_heads, kind=routing, capsules=capsules, fused=form != "plain"
        )
    )
    x = torch.randn(tokens, width, requires_grad=True)
    grad = torch.randn(tokens, width)
    inputs = [x, *module.parameters()]
    return lambda: torch.autograd.grad(module(x), inputs, grad) and None


def peak_memory(make: Callable, arguments: tuple, threads: int) -> float:
    """Memory in MiB that a step needs at most; ``make`` is one of the two functions above."""
    routing, form, shape = arguments
    return peak_beside(make, arguments, (routing, form, (1, *shape[1:])), threads)


def interleaved(steps: dict, rounds: int) -> dict:
    """Times each step once per round.

    Args:
        steps: functions by name.
        rounds: how often; one more, not counted, goes first.

    Returns:
        Seconds of each, in the median over the rounds, by name.
    """
    times = {name: [] for name in steps}
    for _ in range(rounds + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def main() -> None:
    """Prints one table row per routing, number of tokens and form."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["plain", "chunked", "kernel"])
    add_numbers(
        parser,
        {
            "heads": (8, "H"),
            "width": (512, "model width"),
            "capsules": (None, "default: the width"),
            "rounds": (7, "rounds that count, after one of warm-up"),
            "threads": (torch.get_num_threads(), "threads"),
        },
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    capsules = args.capsules or args.width

    print(f"torch {torch.__version__}, {args.threads} threads, forward and backward")
    print(
        f"{'what':<16}{'tokens':>8}{'form':>10}{'ms':>9}{'of plain':>10}{'MiB':>9}{'of plain':>10}"
    )
    for tokens in args.tokens:
        shape = (tokens, args.heads, capsules, args.width // capsules)
        for what in (*ROUTINGS, "module"):
            if what == "module":
                make, names = module_step_of, ["plain", "fused", "linear"]
                calls = {
                    name: ("linear" if name == "linear" else "em-routing", name, shape)
                    for name in names
                }
            else:
                make, calls = step_of, {form: (what, form, shape) for form in args.forms}
            seconds = interleaved({k: make(*call) for k, call in calls.items()}, args.rounds)
            memory = {k: peak_memory(make, call, args.threads) for k, call in calls.items()}
            for name in calls:
                row = f"{what:<16}{tokens:>8}{name:>10}"
                for measured, unit in ((seconds, 1e3), (memory, 1.0)):
                    ratio = measured[name] / measured["plain"] if measured.get("plain") else None
                    row += f"{unit * measured[name]:>9.1f}"
                    row += f"{'-' if ratio is None else format(ratio, '.3f'):>10}"
                print(row, flush=True)


if __name__ == "__main__":
    run_cli(main)
