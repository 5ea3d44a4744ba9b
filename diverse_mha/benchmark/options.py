"""What the benchmarks' command lines share: numbers, where to measure, and how they end."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from diverse_mha.benchmark.checks import CheckError
from diverse_mha.benchmark.training import DTYPES
from diverse_mha.common.arguments import add_number
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json

OUTPUT = {"type": Path, "metavar": "FILE.json", "help": "also write everything"}


def add_numbers(
    parser: argparse.ArgumentParser, numbers: Mapping[str, tuple[int | None, str]], least: int = 1
) -> None:
    """Declare options that take a whole number.

    Args:
        parser: the parser.
        numbers: by name, the default and what it is; without a default the text says what is
            taken instead.
        least: the smallest number that each takes.
    """
    for name, (default, text) in numbers.items():
        add_number(parser, name, default, text, least=least)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Declare ``--precision``, ``--device`` and ``--output``."""
    parser.add_argument(
        "--precision", default="fp32", choices=DTYPES, help="as fairseq's --fp16 and --bf16"
    )
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is a GPU)")
    parser.add_argument("--output", **OUTPUT)


def check_output(output: Path | None) -> None:
    """Refuse a folder where a file is wanted.

    Raises:
        UserError: naming it.
    """
    if output is not None and output.is_dir():
        raise UserError(f"--output {output}: is a folder; name a file in it")


def carry_out(
    measure: Callable[[], dict], lay_out: Callable[[dict], str], output: Path | None
) -> int:
    """Measure, print, write if asked, and return the exit code.

    Args:
        measure: returns everything, or raises :class:`CheckError`; then there is no figure.
        lay_out: turns that into a text.
        output: the JSON file to write, or None.
    """
    try:
        result = measure()
    except CheckError as error:
        print(f"no figures: {error}", file=sys.stderr)
        return 1
    print(lay_out(result))
    if output is not None:
        write_json(output, result)
    return 0
