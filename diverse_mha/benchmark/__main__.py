"""Time training against stock fairseq: ``python -m diverse_mha.benchmark``."""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from tqdm import tqdm

from diverse_mha.benchmark.batches import batches_for, describe, stand_in_task
from diverse_mha.benchmark.ceiling import count_operations
from diverse_mha.benchmark.checks import CheckError, gather, judge
from diverse_mha.benchmark.memory import TOO_LARGE, measure_memory, to_device
from diverse_mha.benchmark.options import add_numbers, add_place, carry_out, check_output
from diverse_mha.benchmark.ranges import LEAST_ROUNDS, add, check_rounds, format_ranges
from diverse_mha.benchmark.report import describe_machine, describe_variant, format_markdown
from diverse_mha.benchmark.rounds import clock_for, run_rounds
from diverse_mha.benchmark.shapes import SHAPES
from diverse_mha.benchmark.summary import summarise
from diverse_mha.benchmark.training import Outcome, Trainee, check_precision, find_device
from diverse_mha.benchmark.variants import (
    LANGUAGE_MODEL_VARIANTS,
    STOCK,
    VARIANTS,
    choose,
    variants_of,
)
from diverse_mha.common.arguments import OneLineParser, called
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.places import check_folder

CHECK_TOKENS = 500  # tokens in the batch of the correctness check, which is not timed


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog=called("benchmark"),
        description="Time training steps (forward, backward, Adam) of this package's methods "
        "against fairseq's transformer (or transformer_lm) of the same shape. In each round "
        "every variant does one step on the same synthetic batch. Prints a Markdown table; the "
        "exit code is 1, and there is no figure, if a variant does not compute what it should.",
        epilog="variants: "
        + "; ".join(f"{name} = {v.text}" for name, v in VARIANTS.items())
        + f"; at the shapes of language models {', '.join(LANGUAGE_MODEL_VARIANTS)}",
    )
    parser.add_argument("--shape", default="small", choices=SHAPES, help="default: small")
    parser.add_argument(
        "--variants", metavar="NAMES", help="separated by commas, stock is always there "
        "(default: all)"
    )  # fmt: skip
    parser.add_argument(
        "--mean-length", type=float, metavar="N",
        help="mean length of the corpus's sentences, or length of a language model's blocks, "
        "in tokens (default: the shape's)",
    )  # fmt: skip
    text = "most tokens in a batch, padding included (default: the shape's)"
    add_numbers(parser, {"batch-tokens": (None, text)}, least=16)
    add_numbers(
        parser,
        {
            "rounds": (30, "rounds that count"),
            "threads": (torch.get_num_threads(), "threads on the CPU"),
        },
    )
    add_numbers(parser, {"warm-up": (3, "rounds before them"), "seed": (1, "of all chance")}, 0)
    parser.add_argument(
        "--compile", action="store_true", help="train our models with --compile, where they have it"
    )
    add_place(parser)
    parser.add_argument(
        "--add-to", type=Path, metavar="FOLDER",
        help="keep the run there, and print each variant's range over all runs of the same "
        f"options in it; needs at least {LEAST_ROUNDS} rounds",
    )  # fmt: skip
    return parser


def check_options(args: argparse.Namespace) -> None:
    """Refuse impossible options, and fill in those that the shape or the machine decides.

    Raises:
        UserError: naming the option, its value and what would do.
    """
    shape = SHAPES[args.shape]
    args.variants = choose(args.variants, variants_of(shape))
    if args.batch_tokens is None:
        args.batch_tokens = shape.batch_tokens
    if args.mean_length is None:
        args.mean_length = shape.mean_length
    if not (math.isfinite(args.mean_length) and 2 <= args.mean_length <= args.batch_tokens):
        raise UserError(
            f"--mean-length {args.mean_length:g}: must lie between 2 and --batch-tokens, "
            f"{args.batch_tokens}"
        )
    args.device = find_device(args.device)
    check_precision(args.precision, args.device)
    check_output(args.output)
    if args.add_to is not None:
        check_rounds(args.rounds)
        check_folder("--add-to", args.add_to)


def measure(args: argparse.Namespace) -> dict:
    """Check the variants, measure memory and time, and return everything.

    Args:
        args: options that went through ``check_options``.

    Raises:
        CheckError: if a variant does not compute what it should.
    """
    shape, device, names = SHAPES[args.shape], args.device, args.variants
    torch.set_num_threads(args.threads)
    machine = describe_machine(device, args.threads)
    task = stand_in_task(shape.vocabulary)

    def batches(count: int, tokens: int) -> list[dict]:
        return batches_for(shape, count, tokens, args.mean_length, args.seed)

    batch = to_device(batches(1, min(args.batch_tokens, CHECK_TOKENS))[0], device)
    evidence = gather(_bar(names, "check"), shape, task, batch, device, args.seed)
    faults = judge(evidence)
    if faults:
        raise CheckError("; ".join(faults))

    drawn = batches(args.warm_up + args.rounds, args.batch_tokens)
    settings = {
        **{"device": device, "precision": args.precision},
        **{"seed": args.seed, "compile": args.compile},
    }
    memory = {
        name: measure_memory(name, shape, drawn[0], threads=args.threads, **settings)
        for name in _bar(names, "memory")
    }

    trainees = {
        name: Trainee(variants_of(shape)[name], shape.options(), task, **settings)
        for name in _bar(names, "build")
    }
    counted = to_device(drawn[0], device)
    operations = count_operations(trainees[STOCK], counted) / int(counted["ntokens"])
    skipped = dict.fromkeys(names, 0)

    def check(name: str, outcome: Outcome) -> None:
        skipped[name] += outcome.grad_norm is None
        if not outcome.finite():
            raise CheckError(f"{name}: the loss or a gradient was not finite while being timed")

    seconds = run_rounds(
        {name: trainee.step for name, trainee in trainees.items()},
        [to_device(batch, device) for batch in drawn],
        args.warm_up,
        clock_for(device),
        check,
        lambda sequence, total: _bar(sequence, "time", total),
    )
    summaries = summarise(seconds, STOCK, args.seed)
    return {
        "options": {**vars(args), "device": device.type, "output": None, "add_to": None},
        "model": {**asdict(shape), "layout": shape.layout},
        "machine": machine,
        "batches": [describe(batch) for batch in drawn[args.warm_up :]],
        "check": {name: asdict(found) for name, found in evidence.items()},
        "updates_skipped": skipped,
        "stock_operations_per_target_token": operations,
        "variants": {
            name: describe_variant(
                name,
                args.shape,
                seconds[name],
                summaries[name],
                memory[name],
                trainees[name].parameters(),
            )
            for name in names
        },
    }


def _bar(sequence, text: str, total: int | None = None):
    return tqdm(sequence, desc=f"{text:<6}", total=total, leave=False)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    args = build_parser().parse_args(arguments)
    check_options(args)

    def report(result: dict) -> str:
        ranges = [] if args.add_to is None else [format_ranges(add(args.add_to, result))]
        return "\n\n".join([format_markdown(result), *ranges])

    try:
        return carry_out(lambda: measure(args), report, args.output)
    except torch.OutOfMemoryError:
        raise UserError(
            f"--batch-tokens {args.batch_tokens}: {TOO_LARGE}; take fewer tokens or --variants"
        ) from None


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
