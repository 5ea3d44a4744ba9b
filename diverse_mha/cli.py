"""The ``diverse-mha`` command: a table of subcommands, each in its own module.

A subcommand is a row in ``COMMANDS`` and a module with ``add_arguments(parser)`` and ``run(args)``,
which returns the exit code. A subcommand that passes options on to fairseq has ``main(words)``
instead, with the remaining arguments as ``words``. Only the chosen module is imported.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from diverse_mha import __version__
from diverse_mha.common.errors import RESUMES, STARTS_OVER, OneLineParser, UserError, run_cli
from diverse_mha.common.files import ROOT, check_data_exists


class Command(NamedTuple):
    """A subcommand.

    Attributes:
        module: name of the subcommand's module.
        help: description of the subcommand in ``--help``.
        own_words: True if the module has ``main(words)``, which parses the arguments itself.
        in_clone: True if the module is outside the package, so that it needs a clone of the
            repository.
        reads: number of leading arguments that are checked as paths: 1 for a checkpoint, 2 for a
            checkpoint and a data folder.
    """

    module: str
    help: str
    own_words: bool = False
    in_clone: bool = False
    reads: int = 0


COMMANDS = {
    "doctor": Command("doctor", "check that everything works on this machine"),
    "run": Command("training.run", "carry out a recipe: prepare, train, evaluate, score", True),
    "recipe": Command("recipes.recipe", "print a composed recipe as a file of your own"),
    "train": Command("training.train", "train a model, in one process or several", True),
    "average": Command("evaluation.average", "average several checkpoints into one", reads=1),
    "evaluate": Command("evaluation.evaluate", "translate a test set and score it", True, reads=2),
    "evaluate-lm": Command("evaluation.evaluate_lm", "score a language model", True, reads=2),
    "evaluate-classifier": Command(
        "evaluation.evaluate_classifier", "score a classifier", True, reads=2
    ),
    "translate": Command(
        "evaluation.translate", "translate plain text from standard input", reads=2
    ),
    "export": Command(
        "export.export",
        "write a model for fairseq, CTranslate2 or transformers",
        reads=1,
    ),
    "analyze": Command(
        "analysis.analyze", "measure how much the heads of a checkpoint differ", reads=1
    ),
    "prune": Command("analysis.prune", "remove the least important heads of a checkpoint", reads=1),
    "align": Command("evaluation.align", "align words by a head of a translation model", reads=2),
    "compare": Command("evaluation.compare", "test whether a difference is larger than chance"),
    "reproduce": Command(
        "experiments.reproduce", "train models and print a table of the papers", in_clone=True
    ),
    "benchmark": Command(
        "benchmarks.benchmark", "compare the speed of training with stock fairseq", True, True
    ),
    "options": Command("options", "show the options of models, criterions and tasks"),
    "path": Command("training.path", "print the folder to give to fairseq's --user-dir"),
}


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Return the parser, with the options of the ``chosen`` subcommand."""
    parser = OneLineParser(
        prog="diverse-mha",
        description="Tools around the diverse_mha plugin for fairseq. fairseq's own "
        "commands work too, with --user-dir $(diverse-mha path).",
        epilog="'diverse-mha COMMAND --help' shows a command's options.\n\nexample:\n"
        "  diverse-mha analyze runs/baseline/checkpoint_best.pt data/multi30k/bin",
    )
    parser.add_argument("--version", action="version", version=f"diverse-mha {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        text = command.help[0].upper() + command.help[1:] + "."
        subparser = commands.add_parser(name, help=command.help, description=text)
        if name == chosen and not command.own_words:
            module = _import(command)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    return parser


def _import(command: Command) -> ModuleType:
    if not command.in_clone:
        return importlib.import_module(f"diverse_mha.{command.module}")
    if not (ROOT / command.module.split(".")[0]).is_dir():
        raise UserError(
            f"{ROOT}: is not a clone of diverse-mha, which this command needs; clone the "
            "repository and run it there"
        )
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(command.module)


def _check_named(words: Sequence[str]) -> None:
    """Raise an error for a missing checkpoint or data folder, before the slow import of torch."""
    if any(word.startswith("-") for word in words[:1]):
        return
    for path in words[0].split(os.pathsep) if words else ():
        name, _, file = path.partition("=")  # NAME=CHECKPOINT
        if not os.path.exists(path) and not (file and os.path.exists(file)):
            raise UserError(f"{path}: no such checkpoint; check the folder and the name")
    if len(words) > 1 and not words[1].startswith("-"):
        for folder in words[1].split(os.pathsep):
            check_data_exists(Path(folder))


def run(arguments: Sequence[str]) -> int:
    """Run one subcommand and return its exit code."""
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is not None:
        _check_named(arguments[1 : 1 + command.reads])
    if command is not None and command.own_words:
        return _import(command).main(arguments[1:]) or 0
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    args = build_parser(chosen).parse_args(arguments)
    args.words = list(arguments)  # for commands that record their command line
    return args.run(args)


def main() -> None:
    """Run the command line and exit with its exit code."""
    resumes = sys.argv[1:2] in (["run"], ["train"], ["reproduce"])
    run_cli(lambda: run(sys.argv[1:]), interrupted=RESUMES if resumes else STARTS_OVER)


if __name__ == "__main__":
    main()
