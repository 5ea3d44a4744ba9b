"""What the command lines share: mistakes are said in one line."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from diverse_mha.common.errors import UserError
from diverse_mha.common.places import ROOT, check_file


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others of the commands."""

    def error(self, message: str) -> NoReturn:
        """Report a wrong command line.

        Raises:
            UserError: always, with the message.
        """
        raise UserError(f"{message}; see {self.prog} --help")


def called(name: str, folder: str = "scripts") -> str:
    """Say how a subcommand is called: by its script in a clone, elsewhere by its name."""
    there = (ROOT / folder / f"{name}.sh").is_file()
    return f"{folder}/{name}.sh" if there else f"diverse-mha {name}"


def one_line(parser: argparse.ArgumentParser, who: str) -> argparse.ArgumentParser:
    """Make a parser of fairseq's report a wrong command line as :class:`OneLineParser` does.

    Args:
        parser: the parser, changed in place.
        who: the command whose ``--help`` lists its options.
    """

    def error(message: str) -> NoReturn:
        raise UserError(f"{message}; see {who} --help")

    parser.error = error
    return parser


def add_out(parser: argparse.ArgumentParser, corpus: str) -> None:
    """Declare ``--out`` of a command that prepares a corpus.

    Its script of ``data-prep/`` gives the same folder below the repository, wherever it is called.
    """
    out = Path("data", corpus)
    parser.add_argument(
        "--out", type=Path, default=out, metavar="FOLDER", help=f"where all output goes ({out})"
    )


def add_from(parser: argparse.ArgumentParser, text: str, required: bool = False) -> None:
    """Declare ``--from`` of a command that prepares a corpus, the folder ``local``."""
    parser.add_argument(
        "--from", type=Path, dest="local", metavar="FOLDER", required=required, help=text
    )


def add_number(
    parser: argparse.ArgumentParser, name: str, default: int | None, text: str, *, least: int = 1
) -> None:
    """Declare ``--NAME N``, a whole number from ``least`` up; a default is added to its text."""
    said = text if default is None else f"{text} ({default})"
    parser.add_argument(f"--{name}", type=at_least(least), default=default, metavar="N", help=said)


def add_evaluation(parser: argparse.ArgumentParser, default: str) -> None:
    """Declare what every command that scores a checkpoint takes: ``--output`` and ``--cpu``."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help=f"default: CHECKPOINT.{default}.json beside the checkpoint",
    )
    parser.add_argument("--cpu", action="store_true", help="leave GPUs alone")


def refuse_taken(extra: Sequence[str], taken: Mapping[str, str]) -> None:
    """Refuse options of fairseq's that a script of ours gives itself.

    Args:
        extra: what goes on to fairseq.
        taken: our own option by fairseq's.

    Raises:
        UserError: naming both.
    """
    for word in extra:
        name = word.partition("=")[0]
        if name in taken:
            raise UserError(f"{name}: is given by this script; use {taken[name]}")


def evaluation_output(
    args: argparse.Namespace, checkpoints: str | Path | Sequence[str], default: str
) -> Path:
    """Return ``--output`` of :func:`add_evaluation`, given or by default.

    Args:
        args: the options.
        checkpoints: beside which it goes by default; of several, an ensemble, all in its name.
        default: what its name says behind theirs.

    Raises:
        UserError: if it could not be written.
    """
    several = [checkpoints] if isinstance(checkpoints, str | Path) else checkpoints
    stem = "+".join(Path(one).stem for one in several)
    output = args.output or Path(several[0]).with_name(f"{stem}.{default}.json")
    check_file("--output", output, ".json")
    return output


def at_least(minimum: int) -> Callable[[str], int]:
    """Make a reader of whole numbers from ``minimum`` up, for ``type`` of an argument."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number from {minimum} up")
        return value

    return integer
