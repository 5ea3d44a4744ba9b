"""Times training against stock fairseq: ``diverse-mha benchmark``."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch

from benchmarks.arguments import build_parser, check_options
from benchmarks.batches import batches_for, stand_in_task, to_device
from benchmarks.memory import peak_memory
from benchmarks.report import describe_machine, format_markdown
from benchmarks.rounds import bar, clock_for, run_rounds, summarise
from benchmarks.shapes import SHAPES
from benchmarks.training import Trainee, train_twice
from benchmarks.variants import STOCK, variants_of
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.files import write_json

SEED = 1


def measure(args: argparse.Namespace) -> dict:
    """Measure memory and time, and return everything."""
    shape, device, names = SHAPES[args.shape], args.device, args.variants
    torch.set_num_threads(args.threads)
    machine = describe_machine(device, args.threads)
    task, variants = stand_in_task(shape.vocabulary), variants_of(shape)
    count = args.warm_up + args.rounds
    # On a GPU libraries plan an operation when they first meet its shapes: all in the warm-up.
    drawn = args.warm_up if device.type == "cuda" and args.warm_up else count
    batches = batches_for(shape, drawn, args.batch_tokens, args.mean_length, SEED)
    batches = [batches[number % drawn] for number in range(count)]
    settings = {"device": device, "precision": args.precision}
    settings |= {"optimizer": args.optimizer, "seed": SEED}
    memory = {
        name: peak_memory(
            *(train_twice, name, shape, batches[0], settings), device=device, threads=args.threads
        )
        for name in bar(names, "memory")
    }
    trainees = {
        name: Trainee(variants[name], shape.options(), task, **settings)
        for name in bar(names, "build")
    }
    steps = {name: trainee.step for name, trainee in trainees.items()}
    on_device = [to_device(batch, device) for batch in batches]
    seconds = run_rounds(steps, on_device, args.warm_up, clock_for(device))
    summaries = summarise(seconds, STOCK)
    rows = {
        name: {
            **asdict(variants[name]),
            "parameters": trainees[name].parameters(),
            "peak_memory_bytes": memory[name],
            **summaries[name],
        }
        for name in names
    }
    options = {k: v for k, v in vars(args).items() if k != "output"}
    return {
        "options": options | {"device": device.type},
        "model": asdict(shape) | {"layout": shape.layout},
        "machine": machine,
        "baseline": STOCK,
        "variants": rows,
    }


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    args = build_parser().parse_args(arguments)
    check_options(args)
    try:
        result = measure(args)
    except torch.OutOfMemoryError:
        raise UserError(
            f"--batch-tokens {args.batch_tokens}: the GPU's memory does not hold what is measured; "
            "take less, fewer --variants or an empty GPU"
        ) from None
    print(format_markdown(result))
    if args.output is not None:
        write_json(args.output, result)
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
