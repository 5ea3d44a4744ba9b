"""Errors that a user can correct, and command-line parsers that report them in one line."""

import argparse
import errno
import functools
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

from diverse_mha.common import start
from diverse_mha.common.ranges import at_least

RESUMES = "interrupted; run the same command again to go on"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
STARTS_OVER = "interrupted; the same command starts again from the beginning"


class Option(NamedTuple):
    """An option that an error mentions.

    Attributes:
        name: its name with underscores, as in fairseq's options and in Python.
        value: its value as far as the error mentions it; None: without; True: a flag.
    """

    name: str
    value: object = None


def as_option(option: Option) -> str:
    """Return an option as on the command line: ``--max-tokens 4000``.

    A value with spaces is in quotes, so that it can be copied.
    """
    name, value = f"--{option.name.replace('_', '-')}", option.value
    if value is None or value is True:
        return name
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name} {shlex.quote(text) if len(text.split()) > 1 else text}"


def as_argument(option: Option) -> str:
    """Return an option as in Python: ``max_tokens=4000``."""
    return option.name if option.value is None else f"{option.name}={option.value!r}"


def listed(options: Iterable[Option], word: str) -> list[Option | str]:
    """Return options as parts of an error, with ``word`` (and, or) between them."""
    return [part for option in options for part in (f" {word} ", option)][1:]


class UserError(ValueError):
    """Error for a wrong or missing input; its one line names the input, its value and the cure.

    Our commands print it and exit with code 2 (:func:`run_cli`), fairseq's with code 1
    (:func:`report_uncaught`).

    Args:
        parts: the sentence, in which each :class:`Option` is spelt as the user writes it: on the
            command line, in a recipe or in Python::

                raise UserError(Option("drophead", 2), ": must be below 1")
    """

    def __init__(self, *parts: str | Option):
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.spelt(as_option)

    def spelt(self, spell: Callable[[Option], str]) -> str:
        """Return the sentence with its options spelt by a function such as :func:`as_option`."""
        return "".join(spell(x) if isinstance(x, Option) else str(x) for x in self.args)


def user_error_in(error: BaseException) -> UserError | None:
    """Return ``error`` if it is a :class:`UserError`, or the one that torch quotes from a worker.

    torch's ProcessRaisedException ends with the last line of the worker's traceback. Other errors
    give None.
    """
    if isinstance(error, UserError):
        return error
    kind, _, message = str(error).strip().rpartition("\n")[2].partition(": ")
    quoted = type(error).__name__ == "ProcessRaisedException"
    if quoted and kind == f"{UserError.__module__}.{UserError.__qualname__}":
        return UserError(message)
    return None


def run_cli(main: Callable[[], int | None], *, interrupted: str = RESUMES) -> None:
    """Run a command's ``main`` and end the process with its exit code (None is 0).

    A :class:`UserError` or ``OSError`` is printed in one line on stderr, with exit code 2. Ctrl-C
    prints ``interrupted`` and exits with 130; a closed pipe (``| head``) exits with 141.
    """
    start.start_command()
    if sys.stderr is None:  # closed by the shell
        sys.stderr = open(os.devnull, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):  # the locale may lack characters of a table
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main() or 0
        if sys.stdout is not None:  # closed by the shell
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # Otherwise the interpreter's last flush of stdout would raise the error again.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        code = _complain(describe_os_error(error))
    except Exception as error:
        refused = user_error_in(error)
        if refused is None:
            raise
        code = _complain(str(refused))
    sys.exit(code)


def report_uncaught(
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    *,
    interrupted: str = RESUMES,
) -> None:
    """Print one line for a user error or Ctrl-C; a ``sys.excepthook`` for fairseq's commands."""
    refused = user_error_in(error)
    if refused is not None:
        _complain(str(refused))
    elif isinstance(error, KeyboardInterrupt):
        print(interrupted, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


def describe_os_error(error: OSError) -> str:
    """Return one line: the file, the reason, and a cure where one is known."""
    file = f"{error.filename}: " if error.filename is not None else ""
    text = f"{file}{error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text += "; free some space and run the same command again"
    elif error.errno == errno.EFBIG:
        text += "; raise the limit of file sizes (ulimit -f) and run the same command again"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
        text += "; check the name"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        text += "; choose a path you may write to, or change its permissions"
    return text


def visible(text: str) -> str:
    r"""Return a text with escapes (``\x1b``) for control characters, as names of files may have."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _complain(message: str) -> int:
    print("error: " + visible(" ".join(message.split("\n"))), file=sys.stderr)
    return 2


class _Help(argparse.HelpFormatter):
    """Help formatter that does not wrap indented lines (the examples)."""

    def _fill_text(self, text, width, indent):
        fill = super()._fill_text
        lines = text.split("\n")
        return "\n".join(n if n.startswith(" ") else fill(n, width, indent) for n in lines)


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    raise UserError(f"{message}; see {parser.prog} --help")


class OneLineParser(argparse.ArgumentParser):
    """Parser that raises :class:`UserError` for invalid arguments."""

    def __init__(self, **options: Any):
        options.setdefault("formatter_class", _Help)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """Raise the message as a :class:`UserError`."""
        _refuse(self, message)

    def add_subparsers(self, **options):
        """Add subcommands whose errors point to their own ``--help``."""
        return super().add_subparsers(parser_class=_SubcommandParser, **options)


class _SubcommandParser(OneLineParser):
    """Rejects unknown options, which argparse would pass to the parent parser."""

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        parsed, unknown = super().parse_known_args(*args, **options)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


def called(command: str) -> str:
    """Return a subcommand's name as this user types it: a script, or ``diverse-mha COMMAND``."""
    return f"scripts/{command}.sh" if by_script(command) else f"diverse-mha {command}"


def by_script(command: str) -> bool:
    """Return True if the user has typed a script, and this subcommand has one, too."""
    scripts = Path(__file__).resolve().parents[2] / "scripts"
    # scripts/env.sh sets this variable.
    return bool(os.environ.get("DIVERSE_MHA_SCRIPT")) and (scripts / f"{command}.sh").is_file()


def one_line(parser: argparse.ArgumentParser, who: str) -> argparse.ArgumentParser:
    """Make a fairseq parser report errors like :class:`OneLineParser`, as program ``who``."""
    parser.prog, parser.error = who, functools.partial(_refuse, parser)
    return parser


def add_number(
    parser: argparse._ActionsContainer,
    name: str,
    default: int | None,
    text: str,
    *,
    least: int = 1,
) -> None:
    """Declare ``--NAME N``, a whole number from ``least`` up; its help ends with any default."""
    help = text if default is None else f"{text} (default: {default})"
    parser.add_argument(
        f"--{name}", type=at_least(least).parse_int, default=default, metavar="N", help=help
    )


def add_cpu(parser: argparse.ArgumentParser) -> None:
    """Declare ``--cpu``."""
    parser.add_argument("--cpu", action="store_true", help="use the CPU only")
