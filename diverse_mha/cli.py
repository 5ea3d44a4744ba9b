"""The ``diverse-mha`` command: a table of subcommands, each in a module of its own.

To add one: a row in ``COMMANDS`` and a module with ``add_arguments(parser)`` and ``run(args)``,
which returns the exit code. Only the module of the chosen subcommand is imported.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from diverse_mha import __version__
from diverse_mha.common.arguments import OneLineParser
from diverse_mha.common.errors import run_cli


class Command(NamedTuple):
    """One subcommand: the module of this package that does it, and what ``--help`` says of it."""

    module: str
    help: str


COMMANDS = {
    "doctor": Command("doctor", "show versions and check that everything works here"),
    "average": Command("evaluation.averaging", "average checkpoints into one"),
    "translate": Command("evaluation.deploy.translate", "translate plain text from standard input"),
    "export": Command("evaluation.deploy.export", "write a model for stock fairseq or CTranslate2"),
    "analyze": Command("analysis.command", "score how much the heads of a checkpoint differ"),
    "compare": Command(
        "evaluation.compare", "test whether one translation or method beats another"
    ),
    "reproduce": Command("training.reproduce.command", "run a table of the papers"),
    "options": Command("training.options", "show the options of our models, criterions and tasks"),
    "path": Command("training.user_dir", "print the folder to give to fairseq's --user-dir"),
}


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Build the parser; of the subcommands only ``chosen`` gets its options."""
    parser = OneLineParser(
        prog="diverse-mha",
        description="Tools around the diverse_mha plugin for fairseq. Training and translation "
        "are fairseq's own commands, with --user-dir $(diverse-mha path).",
        epilog="'diverse-mha COMMAND --help' shows the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"diverse-mha {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        text = command.help[0].upper() + command.help[1:] + "."
        subparser = commands.add_parser(name, help=command.help, description=text)
        if name == chosen:
            module = importlib.import_module(f"diverse_mha.{command.module}")
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run one subcommand and return its exit code."""
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    args = build_parser(chosen).parse_args(arguments)
    args.words = list(arguments)  # for commands that write down how they were called
    return args.run(args)


def main() -> None:
    """Run the command line's subcommand and end the process with its exit code."""
    run_cli(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    main()
