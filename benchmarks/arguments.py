"""Options that the benchmarks share, and how they end."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.equality import CheckError
from benchmarks.memory import TOO_LARGE
from benchmarks.rounds import summarise
from benchmarks.shapes import SHAPES
from benchmarks.training import DTYPES
from benchmarks.variants import STOCK, Variant, choose
from diverse_mha.common.arguments import add_number
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json
from diverse_mha.common.places import check_file


def add_models(
    parser: argparse.ArgumentParser, variants: str | None, shapes: Iterable[str] = SHAPES
) -> None:
    """Declare ``--shape``, ``--variants`` with that default, ``--precision`` and ``--device``."""
    parser = parser.add_argument_group("what to measure")
    parser.add_argument(
        "--shape", default="small", choices=shapes, help="size of the model (default: small)"
    )
    parser.add_argument(
        "--variants", default=variants, metavar="NAMES",
        help=f"comma list, beside stock (default: {variants or 'all'})",
    )  # fmt: skip
    parser.add_argument(
        "--precision", default="fp32", choices=DTYPES, help="precision (default: fp32)"
    )
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare ``--device``; what is read is a ``torch.device``."""
    parser.add_argument(
        "--device",
        type=find_device,
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="cpu or cuda (default: cuda where there is a GPU)",
    )


def add_rounds(parser: argparse.ArgumentParser, rounds: int, warm_up: int) -> None:
    """Declare ``--rounds`` and ``--warm-up`` with these defaults, ``--seed`` and ``--threads``."""
    parser = parser.add_argument_group("how to measure")
    add_number(parser, "rounds", rounds, "rounds to measure")
    add_number(parser, "warm-up", warm_up, "rounds before, not measured", least=0)
    add_number(parser, "seed", 1, "random seed", least=0)
    add_number(parser, "threads", torch.get_num_threads(), "threads on the CPU")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declare ``--output``, which is refused at once if it could not be written."""

    def to_write(name: str) -> Path:
        check_file("--output", name)
        return Path(name)

    parser.add_argument(
        "--output", type=to_write, metavar="FILE.json", help="also write all measurements"
    )


def find_device(name: str) -> torch.device:
    """Return the device of that name."""
    if name not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: choose cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch finds no GPU here; choose cpu")
    return torch.device(name)


def check_models(args: argparse.Namespace, variants: Mapping[str, Variant]) -> None:
    """Read ``--variants``; raises an error for an illegal seed or precision."""
    args.variants = choose(args.variants, variants)
    if args.seed >= 2**64:
        raise UserError(f"--seed {args.seed}: must be below 2**64, as torch's are")
    if args.precision == "fp16" and args.device.type == "cpu":
        raise UserError("--precision fp16: needs a GPU; on the CPU choose fp32 or bf16")
    on_gpu = args.device.type == "cuda"
    if args.precision == "bf16" and on_gpu and not torch.cuda.is_bf16_supported():
        raise UserError("--precision bf16: this GPU has no bfloat16; choose fp32 or fp16")


def carry_out(
    measure: Callable[[], dict],
    lay_out: Callable[[dict], str],
    output: Path | None,
    size: str = "--device cuda",
) -> int:
    """Measure, print, write JSON if asked, and return the exit code (1 for wrong values)."""
    try:
        result = measure()
    except CheckError as error:
        print(f"no figures: {error}", file=sys.stderr)
        return 1
    except torch.OutOfMemoryError:
        raise UserError(
            f"{size}: {TOO_LARGE}; take less, fewer --variants or an empty GPU"
        ) from None
    print(lay_out(result))
    if output is not None:
        write_json(output, result)
    return 0


def result_of(
    args: argparse.Namespace,
    machine: dict,
    seconds: Mapping[str, Sequence[float]],
    rows: Mapping[str, dict],
) -> dict:
    """Return the result of a benchmark for a JSON file."""
    summaries, shape = summarise(seconds, STOCK, args.seed), SHAPES[args.shape]
    options = {k: v for k, v in vars(args).items() if k != "output"}
    return {
        "options": options | {"device": args.device.type},
        "model": asdict(shape) | {"layout": shape.layout},
        "machine": machine,
        "baseline": STOCK,
        "variants": {name: {**row, **summaries[name]} for name, row in rows.items()},
    }
