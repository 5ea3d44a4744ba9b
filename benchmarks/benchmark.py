"""Times training against stock fairseq: ``diverse-mha benchmark``."""

import sys
from collections.abc import Sequence
from dataclasses import asdict

import torch

from benchmarks.arguments import Settings, build_parser, settings_of
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


def measure(settings: Settings) -> dict:
    """Measure memory and time of all variants; return the content of the JSON file."""
    shape, device, names = SHAPES[settings.shape], settings.device, settings.variants
    torch.set_num_threads(settings.threads)
    machine = describe_machine(device, settings.threads)
    task, variants = stand_in_task(shape.vocabulary), variants_of(shape)
    count = settings.warm_up + settings.rounds
    # On a GPU libraries plan an operation at the first batch of each shape, so the measured rounds
    # repeat the batches of the warm-up.
    drawn = settings.warm_up if device.type == "cuda" and settings.warm_up else count
    batches = batches_for(shape, drawn, settings.batch_tokens, settings.mean_length, SEED)
    batches = [batches[number % drawn] for number in range(count)]
    training = {"device": device, "precision": settings.precision}
    training |= {"optimizer": settings.optimizer, "seed": SEED}
    memory = {
        name: peak_memory(
            *(train_twice, name, shape, batches[0], training),
            device=device,
            threads=settings.threads,
        )
        for name in bar(names, "memory")
    }
    trainees = {
        name: Trainee(variants[name], shape.options(), task, **training)
        for name in bar(names, "build")
    }
    steps = {name: trainee.step for name, trainee in trainees.items()}
    on_device = [to_device(batch, device) for batch in batches]
    seconds = run_rounds(steps, on_device, settings.warm_up, clock_for(device))
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
    return {
        "options": settings.to_json(),
        "model": asdict(shape) | {"layout": shape.layout},
        "machine": machine,
        "baseline": STOCK,
        "variants": rows,
    }


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    args = build_parser().parse_args(arguments)
    settings = settings_of(args)
    try:
        result = measure(settings)
    except torch.OutOfMemoryError:
        raise UserError(
            f"--batch-tokens {settings.batch_tokens}: the GPU is out of memory; give fewer tokens, "
            "fewer --variants or an unused GPU"
        ) from None
    print(format_markdown(result))
    if args.output is not None:
        write_json(args.output, result)
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
