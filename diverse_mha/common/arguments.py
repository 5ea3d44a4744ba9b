"""Command lines whose errors are one line."""

import argparse
import functools
import math
import os
from collections.abc import Callable
from typing import NoReturn

from diverse_mha.common.errors import UserError


class _Help(argparse.HelpFormatter):
    """Help that leaves indented lines (the examples) as they are."""

    def _fill_text(self, text, width, indent):
        fill = super()._fill_text
        lines = text.split("\n")
        return "\n".join(n if n.startswith(" ") else fill(n, width, indent) for n in lines)


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises :class:`UserError` on a mistake."""

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Help} | options)

    def error(self, message: str) -> NoReturn:
        """Raise the message as a :class:`UserError`."""
        raise UserError(f"{message}; see {self.prog} --help")

    def add_subparsers(self, **options):
        """Add subcommands whose errors point to their own ``--help``."""
        return super().add_subparsers(parser_class=_SubcommandParser, **options)


class _SubcommandParser(OneLineParser):
    """argparse would leave unknown options to the parser above."""

    def parse_known_args(self, args=None, namespace=None):
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def called(command: str) -> str:
    """Return a subcommand's name as the user typed it: a script, or ``diverse-mha COMMAND``."""
    # Set by scripts/env.sh.
    typed = os.environ.get("DIVERSE_MHA_SCRIPT") == f"{command}.sh"
    return f"scripts/{command}.sh" if typed else f"diverse-mha {command}"


def one_line(parser: argparse.ArgumentParser, who: str) -> argparse.ArgumentParser:
    """Make one of fairseq's parsers report errors as :class:`OneLineParser` does."""
    parser.prog, parser.error = who, functools.partial(OneLineParser.error, parser)
    return parser


def add_number(
    parser: argparse.ArgumentParser, name: str, default: int | None, text: str, *, least: int = 1
) -> None:
    """Declare ``--NAME N``, a whole number from ``least`` up; its help ends with the default."""
    help = text if default is None else f"{text} (default: {default})"
    parser.add_argument(f"--{name}", type=at_least(least), default=default, metavar="N", help=help)


def add_cpu(parser: argparse.ArgumentParser) -> None:
    """Declare ``--cpu``."""
    parser.add_argument("--cpu", action="store_true", help="use the CPU only")


def at_least(minimum: int) -> Callable[[str], int]:
    """Return an argument's ``type``: a whole number from ``minimum`` up."""
    return _reader(int, lambda value: value >= minimum, f"a whole number from {minimum} up")


def between(least: float, most: float) -> Callable[[str], float]:
    """Return an argument's ``type``: a number from ``least`` to ``most``."""
    words = f"a number from {least:g} to {most:g}"
    return _reader(float, lambda value: least <= value <= most, words)


def _reader(kind: type, legal: Callable[[float], bool], words: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan  # outside every range
        if not legal(value):
            raise argparse.ArgumentTypeError(f"{text} is not {words}")
        return value

    return read
