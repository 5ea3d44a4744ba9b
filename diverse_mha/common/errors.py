"""Errors a user can cause and mend, and how the commands report them: in one line."""

import errno
import os
import sys
from collections.abc import Callable
from types import TracebackType

INTERRUPTED = "interrupted; run the same command again to go on"


class UserError(Exception):
    """Something the user gave is wrong or missing, and the message says what and what would do.

    Raise it with one line that names the culprit (the file, the option, the address) and the
    cure. :func:`run_cli` prints it without a traceback; any other exception is our own mistake
    and keeps its traceback.
    """


class OptionError(UserError, ValueError, SystemExit):
    """An option, configuration or file that fairseq's own commands were given and we refuse.

    fairseq's commands know nothing of :class:`UserError`: as a ``SystemExit`` the error ends
    them with its one line and exit code 1 instead of a traceback, and as a ``ValueError`` it
    can be caught like any other where the package is used as a library.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.code = f"error: {message}"  # what the interpreter prints on its way out


def run_cli(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and end the process with a fitting exit code.

    The code is what ``main`` returns (None counts as 0). A :class:`UserError`, or an error of
    the operating system such as a full disk, ends with code 2 and one line on stderr; Ctrl-C
    ends with 130, as in a shell; a reader that hangs up (``| head``) ends with 141.
    """
    if sys.stderr is None:  # closed by the shell; what is printed there would go to stdout
        sys.stderr = open(os.devnull, "w")
    if hasattr(sys.stdout, "reconfigure"):  # a locale may lack characters of names and tables
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main() or 0
        if sys.stdout is not None:  # closed by the shell
            sys.stdout.flush()
    except UserError as error:
        code = _complain(str(error))
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # The interpreter flushes stdout once more on its way out: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        code = _complain(describe_os_error(error))
    sys.exit(code)


def say_interrupted(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Say Ctrl-C in one line, and nothing else differently: Python's ``sys.excepthook``.

    It serves a command outside :func:`run_cli`: while it is imported, or where it is fairseq's.
    """
    if issubclass(kind, KeyboardInterrupt):
        print(INTERRUPTED, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


def describe_os_error(error: OSError) -> str:
    """Say in one line what the operating system refused, and the cure where there is one."""
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
