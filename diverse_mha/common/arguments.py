"""What the command lines share: mistakes are said in one line."""

import argparse
import functools
import math
import os
from collections.abc import Callable
from typing import NoReturn

from diverse_mha.common.errors import UserError


class _Help(argparse.HelpFormatter):
    """Help whose indented lines, the examples, are not wrapped."""

    def _fill_text(self, text, width, indent):
        fill = super()._fill_text
        lines = text.split("\n")
        return "\n".join(n if n.startswith(" ") else fill(n, width, indent) for n in lines)


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others of the commands."""

    def __init__(self, **options):
        super().__init__(**{"formatter_class": _Help} | options)

    def error(self, message: str) -> NoReturn:
        """Raise a :class:`UserError` with the message."""
        raise UserError(f"{message}; see {self.prog} --help")

    def add_subparsers(self, **options):
        """Add subcommands that refuse unknown options themselves, and so name their own help."""
        return super().add_subparsers(parser_class=_SubcommandParser, **options)


class _SubcommandParser(OneLineParser):
    """argparse's own leaves what it does not know to the parser above it."""

    def parse_known_args(self, args=None, namespace=None):
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def called(command: str, script: str | None = None) -> str:
    """Name a subcommand as the user typed it: its script, by default of its name, or itself."""
    script = script or f"scripts/{command}.sh"
    # scripts/env.sh, which every script reads, leaves the script's name.
    typed = os.environ.get("DIVERSE_MHA_SCRIPT") == script.rpartition("/")[2]
    return script if typed else f"diverse-mha {command}"


def one_line(parser: argparse.ArgumentParser, who: str) -> argparse.ArgumentParser:
    """Make a command's parser, one of fairseq's, report mistakes as :class:`OneLineParser` does."""
    parser.prog, parser.error = who, functools.partial(OneLineParser.error, parser)
    return parser


def add_number(
    parser: argparse.ArgumentParser, name: str, default: int | None, text: str, *, least: int = 1
) -> None:
    """Declare ``--NAME N``, a whole number from ``least`` up; a default is added to its text."""
    said = text if default is None else f"{text} ({default})"
    parser.add_argument(f"--{name}", type=at_least(least), default=default, metavar="N", help=said)


def at_least(minimum: int) -> Callable[[str], int]:
    """Make a reader of whole numbers from ``minimum`` up, for ``type`` of an argument."""
    return _reader(int, lambda value: value >= minimum, f"a whole number from {minimum} up")


def between(least: float, most: float) -> Callable[[str], float]:
    """Make a reader of numbers from ``least`` to ``most``, for ``type`` of an argument."""
    words = f"a number from {least:g} to {most:g}"
    return _reader(float, lambda value: least <= value <= most, words)


def _reader(kind: type, legal: Callable[[float], bool], words: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan  # which no range has
        if not legal(value):
            raise argparse.ArgumentTypeError(f"{text} is not {words}")
        return value

    return read
