"""Errors that a user can correct, reported in one line."""

import errno
import os
import sys
from collections.abc import Callable
from types import TracebackType

RESUMES = "interrupted; run the same command again to go on"
STARTS_OVER = "interrupted; the same command starts again from the beginning"


class UserError(Exception):
    """A wrong or missing input: one line that names it, its value and the cure.

    :func:`run_cli` prints it without a traceback.
    """


class OptionError(UserError, ValueError, SystemExit):
    """A :class:`UserError` that fairseq's own commands can meet.

    As a ``SystemExit`` it ends them with one line and exit code 1. A caller catches it as a
    ``ValueError``.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.code = f"error: {message}"  # printed by the interpreter


def run_cli(main: Callable[[], int | None], *, interrupted: str = RESUMES) -> None:
    """Run a command's ``main`` and end the process with its exit code (None is 0).

    ``interrupted`` is what Ctrl-C prints.

    A :class:`UserError` or ``OSError`` is one line on stderr and code 2, Ctrl-C is 130, and a
    closed pipe (``| head``) is 141.
    """
    if sys.stderr is None:  # closed by the shell
        sys.stderr = open(os.devnull, "w")
    if hasattr(sys.stdout, "reconfigure"):  # the locale may lack characters of a table
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main() or 0
        if sys.stdout is not None:  # closed by the shell
            sys.stdout.flush()
    except UserError as error:
        code = _complain(str(error))
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        code = _complain(describe_os_error(error))
    sys.exit(code)


def say_interrupted(
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    *,
    interrupted: str = RESUMES,
) -> None:
    """A ``sys.excepthook`` that reports Ctrl-C in one line, outside :func:`run_cli` too."""
    if issubclass(kind, KeyboardInterrupt):
        print(interrupted, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


def describe_os_error(error: OSError) -> str:
    """Return one line: the file, the reason, and a cure where one is known."""
    place = f"{error.filename}: " if error.filename is not None else ""
    text = f"{place}{error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text += "; free some space and run the same command again"
    elif error.errno == errno.EFBIG:
        text += "; raise the limit of file sizes (ulimit -f) and run the same command again"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
        text += "; check the name"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        text += "; choose a place you may write to, or change its permissions"
    return text


def _complain(message: str) -> int:
    print("error: " + " ".join(message.split("\n")), file=sys.stderr)
    return 2
