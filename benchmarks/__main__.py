"""Time training against stock fairseq: ``python -m benchmarks``."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch

from benchmarks.arguments import (
    add_models,
    add_output,
    add_rounds,
    carry_out,
    check_models,
    result_of,
)
from benchmarks.batches import LONGEST, batches_for, describe, rounds_of, stand_in_task, to_device
from benchmarks.equality import CheckError, gather, judge
from benchmarks.memory import peak_memory
from benchmarks.report import MIB, describe_machine, format_table, ratio
from benchmarks.rounds import bar, clock_for, run_rounds
from benchmarks.shapes import SHAPES, LanguageModelShape
from benchmarks.training import Outcome, Trainee, train_twice
from benchmarks.variants import LANGUAGE_MODEL_VARIANTS, VARIANTS, variants_of
from diverse_mha.common.arguments import OneLineParser, add_number, called
from diverse_mha.common.errors import UserError, run_cli

CHECK_TOKENS = 500  # tokens in the batch of the correctness check, which is not timed
HEADINGS = (
    *("variant", "what", "s/step (quartiles)", "steps/s", "ratio to stock (95 %)"),
    *("peak memory, MiB", "parameters, M"),
)


def build_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = OneLineParser(
        prog=called("benchmark"),
        description="Measure the speed of training beside stock fairseq. In each round every "
        "variant and fairseq's model of the same shape do one step (forward, backward, Adam) on "
        "the same synthetic batch. Prints a Markdown table. If a variant computes wrong values in "
        "float32, no figure is printed and the exit code is 1.",
        epilog="variants (* also of language models):\n"
        + "\n".join(
            f"  {name + ' *' * (name in LANGUAGE_MODEL_VARIANTS):20} {v.text}"
            for name, v in VARIANTS.items()
        )
        + "\n\nexample:\n  diverse-mha benchmark --shape base --variants plain,coda --rounds 20",
    )
    add_models(parser, variants=None)
    parser.add_argument(
        "--mean-length", type=float, metavar="N",
        help="mean length of the corpus's sentences, or length of a language model's blocks, "
        "in tokens (default: the shape's)",
    )  # fmt: skip
    text = "most tokens in a batch, padding included (default: the shape's)"
    add_number(parser, "batch-tokens", None, text, least=16)
    add_rounds(parser, rounds=30, warm_up=3)
    add_output(parser)
    return parser


def check_options(args: argparse.Namespace) -> None:
    """Refuse impossible options, and fill in those that the shape or the machine decides."""
    shape = SHAPES[args.shape]
    check_models(args, variants_of(shape))
    args.batch_tokens = args.batch_tokens or shape.batch_tokens
    if args.mean_length is None:
        args.mean_length = shape.mean_length
    of_text = isinstance(shape, LanguageModelShape)
    most = args.batch_tokens if of_text else min(args.batch_tokens, LONGEST)
    if not 2 <= args.mean_length <= most:
        raise UserError(
            f"--mean-length {args.mean_length:g}: must lie between 2 and {most}, the least of "
            f"--batch-tokens and, for sentences, {LONGEST}"
        )
    if of_text and args.mean_length % 1:
        raise UserError(f"--mean-length {args.mean_length:g}: blocks of text need a whole number")


def measure(args: argparse.Namespace) -> dict:
    """Check the variants, measure memory and time, and return everything."""
    shape, device, names = SHAPES[args.shape], args.device, args.variants
    torch.set_num_threads(args.threads)
    machine = describe_machine(device, args.threads)
    task = stand_in_task(shape.vocabulary)

    def batches(count: int, tokens: int) -> list[dict]:
        return batches_for(shape, count, tokens, args.mean_length, args.seed)

    batch = to_device(batches(1, min(args.batch_tokens, CHECK_TOKENS))[0], device)
    evidence = gather(bar(names, "check"), shape, task, batch, device, args.seed)
    faults = judge(evidence)
    if faults:
        raise CheckError("; ".join(faults))

    drawn = rounds_of(
        lambda count: batches(count, args.batch_tokens), args.rounds, args.warm_up, device
    )
    settings = {name: vars(args)[name] for name in ("device", "precision", "seed")}
    memory = {
        name: peak_memory(
            *(train_twice, name, shape, drawn[0], settings), device=device, threads=args.threads
        )
        for name in bar(names, "memory")
    }
    trainees = {
        name: Trainee(variants_of(shape)[name], shape.options(), task, **settings)
        for name in bar(names, "build")
    }
    on_device = [to_device(batch, device) for batch in drawn]
    skipped = dict.fromkeys(names, 0)

    def check(name: str, outcome: Outcome) -> None:
        skipped[name] += outcome.grad_norm is None
        if not outcome.finite():
            raise CheckError(f"{name}: the loss or a gradient was not finite while being timed")

    steps = {name: trainee.step for name, trainee in trainees.items()}
    seconds = run_rounds(steps, on_device, args.warm_up, clock_for(device), check)
    rows = {
        name: {
            **asdict(variants_of(shape)[name]),
            "parameters": trainees[name].parameters(),
            "peak_memory_bytes": memory[name],
        }
        for name in names
    }
    return result_of(args, machine, seconds, rows) | {
        "batches": [describe(batch) for batch in drawn[args.warm_up :]],
        "check": {name: asdict(found) for name, found in evidence.items()},
        "updates_skipped": skipped,
    }


def format_markdown(result: dict) -> str:
    """Lay out what ``measure`` returns, or the same read back from JSON, as a table."""
    options, shape = result["options"], result["model"]
    title = (
        f"Training, shape {options['shape']} (C {shape['embed_dim']}, feed-forward "
        f"{shape['ffn_embed_dim']}, {shape['layout']}, {shape['heads']} heads, "
        f"{shape['vocabulary']} words), at most {options['batch_tokens']} tokens a batch, mean "
        f"length {options['mean_length']:g}"
    )
    rows = [
        (
            f"`{name}`",
            row["text"],
            f"{row['median_seconds']:.4g} "
            f"({row['lower_quartile']:.4g}-{row['upper_quartile']:.4g})",
            f"{row['steps_per_second']:.3g}",
            ratio(row),
            f"{row['peak_memory_bytes'] / MIB:.0f}",
            f"{row['parameters'] / 1e6:.1f}",
        )
        for name, row in result["variants"].items()
    ]
    return format_table(title, HEADINGS, rows, result)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    args = build_parser().parse_args(arguments)
    check_options(args)
    size = f"--batch-tokens {args.batch_tokens}"
    return carry_out(lambda: measure(args), format_markdown, args.output, size)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
