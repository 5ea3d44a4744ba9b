"""The command-line options of the benchmark."""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from benchmarks.batches import LONGEST
from benchmarks.shapes import SHAPES, LanguageModelShape
from benchmarks.training import DTYPES
from benchmarks.variants import LANGUAGE_MODEL_VARIANTS, VARIANTS, choose, variants_of
from diverse_mha.common.errors import OneLineParser, UserError, add_number, called
from diverse_mha.common.files import check_output_file
from diverse_mha.evaluation.outputs import add_force, check_replaceable, json_with


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the benchmark's options."""
    variants = "\n".join(
        f"  {name + ' *' * (name in LANGUAGE_MODEL_VARIANTS):20} {variant.text}"
        for name, variant in VARIANTS.items()
    )
    parser = OneLineParser(
        prog=called("benchmark"),
        description="Compare the training speed with stock fairseq's. In each round every "
        "variant and fairseq's model of the same shape do one step (forward, backward, Adam) on "
        "the same synthetic batch. Prints a Markdown table.",
        epilog=f"variants (*: also for language models):\n{variants}\n\n"
        "example:\n  diverse-mha benchmark --shape base --variants plain,coda --rounds 20",
    )
    what = parser.add_argument_group("what to measure")
    text = "size of the model (default: small)"
    what.add_argument("--shape", default="small", choices=SHAPES, help=text)
    text = "variants to measure, separated by commas; stock is always measured (default: all)"
    what.add_argument("--variants", metavar="NAMES", help=text)
    text = "precision (default: fp32)"
    what.add_argument("--precision", default="fp32", choices=DTYPES, help=text)
    text = "optimiser of all variants, including stock (default: adam)"
    what.add_argument("--optimizer", default="adam", choices=("adam", "fused_adam"), help=text)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    text = "cpu or cuda (default: cuda if there is a GPU)"
    what.add_argument("--device", default=default, help=text)
    text = "largest number of tokens in a batch, padding included (default: the shape's)"
    add_number(what, "batch-tokens", None, text, least=16)
    text = "mean tokens per sentence, or tokens of a language model's block (default: the shape's)"
    add_number(what, "mean-length", None, text, least=2)
    how = parser.add_argument_group("how to measure")
    add_number(how, "rounds", 30, "number of measured rounds")
    add_number(how, "warm-up", 3, "number of rounds before the measured ones", least=0)
    add_number(how, "threads", torch.get_num_threads(), "threads on the CPU")
    text = "also write all measurements to this file"
    parser.add_argument("--output", type=Path, metavar="FILE.json", help=text)
    add_force(parser)
    return parser


def find_device(name: str) -> torch.device:
    """Return the torch device of a name; raise :class:`UserError` if it is not available."""
    if name not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: choose cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch finds no GPU here; choose cpu")
    return torch.device(name)


@dataclass(frozen=True)
class Settings:
    """Options of a benchmark, with the shape's defaults filled in."""

    shape: str
    variants: list[str]
    precision: str
    optimizer: str
    device: torch.device
    batch_tokens: int
    mean_length: float
    rounds: int
    warm_up: int
    threads: int

    def to_json(self) -> dict:
        """Return the settings as a dictionary, with the device's name."""
        return vars(self) | {"device": self.device.type}


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings of a command line; raise :class:`UserError` for impossible ones."""
    shape, device = SHAPES[args.shape], find_device(args.device)
    given = {field.name: getattr(args, field.name) for field in fields(Settings)}
    given |= {"device": device, "variants": choose(args.variants, variants_of(shape))}
    given["batch_tokens"] = batch_tokens = args.batch_tokens or shape.batch_tokens
    given["mean_length"] = mean_length = args.mean_length or shape.mean_length
    of_text = isinstance(shape, LanguageModelShape)
    most = batch_tokens if of_text else min(batch_tokens, LONGEST)
    if mean_length > most:
        raise UserError(f"--mean-length {mean_length:g}: must be {most} or less")
    if args.precision == "fp16" and device.type == "cpu":
        raise UserError("--precision fp16: needs a GPU; on the CPU choose fp32 or bf16")
    if args.output is not None:
        check_output_file("--output", args.output)
        is_own = json_with("options", "model", "machine", "variants")
        check_replaceable("--output", args.output, is_own=is_own, force=args.force)
    return Settings(**given)
