"""Messages and exit codes of commands that fail."""

import errno
import io
import sys
import traceback

import pytest
from fairseq import options
from torch.multiprocessing import ProcessRaisedException

import diverse_mha.fairseq_fixes.guards  # noqa: F401  patches fairseq's commands
from diverse_mha import cli
from diverse_mha.common.errors import RESUMES, STARTS_OVER, UserError, report_uncaught, run_cli


def ending(main, capsys):
    with pytest.raises(SystemExit) as end:
        run_cli(main)
    return end.value.code, capsys.readouterr().err


def raising(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    "error, code, line",
    [
        (UserError("no such corpus"), 2, "error: no such corpus\n"),
        (UserError("two\nlines"), 2, "error: two lines\n"),
        (UserError("a\x1b[31mb\r\x9bc: no"), 2, "error: a\\x1b[31mb\\x0d\\x9bc: no\n"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to go on\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "data/raw"),
            2,
            "error: data/raw: No space left on device; free some space and run the same command "
            "again\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data"),
            2,
            "error: /data: Permission denied; choose a path you may write to, or change its "
            "permissions\n",
        ),
        (OSError("odd"), 2, "error: odd\n"),
    ],
)
def test_errors_are_reported_in_one_line_with_an_exit_code(error, code, line, capsys):
    assert ending(raising(error), capsys) == (code, line)


def from_a_process(error):
    """Return the error that torch.multiprocessing.spawn raises for an error in a worker."""
    text = "".join(traceback.format_exception(error))
    return ProcessRaisedException(f"\n\n-- Process 1 terminated with:\n{text}", 1, 4711)


def test_a_user_error_in_another_process_is_reported_in_one_line(capsys):
    error = from_a_process(UserError("--lr 0: must be positive"))
    assert ending(raising(error), capsys) == (2, "error: --lr 0: must be positive\n")
    with pytest.raises(ProcessRaisedException):
        run_cli(raising(from_a_process(ValueError("--lr 0: of torch"))))


@pytest.mark.parametrize("command", [True, False])
def test_commands_of_fairseq_report_errors_in_one_line(command, monkeypatch, capsys):
    """Other programs keep their own ``sys.excepthook``."""
    hook = sys.excepthook
    monkeypatch.setattr(sys, "excepthook", hook)
    monkeypatch.setattr(sys, "argv", ["fairseq-generate", "data", "--path", "model.pt"])
    parser = options.get_generation_parser()
    options.parse_args_and_arch(parser, None if command else sys.argv[1:])
    assert (sys.excepthook is hook) != command
    capsys.readouterr()
    if command:
        sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert capsys.readouterr().err == STARTS_OVER + "\n"
    report_uncaught(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == RESUMES + "\n", "the message is that of a training"
    report_uncaught(UserError, UserError("--path x:\nmissing"), None)
    assert capsys.readouterr().err == "error: --path x: missing\n"
    report_uncaught(ValueError, ValueError("a bug"), None)
    assert "ValueError: a bug" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [("train", RESUMES), ("evaluate", STARTS_OVER), ("analyze", STARTS_OVER)],
)
def test_the_message_on_ctrl_c_tells_whether_the_command_resumes(
    command, message, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", ["diverse-mha", command])
    monkeypatch.setattr(cli, "run", lambda words: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130 and capsys.readouterr().err == message + "\n"


def test_internal_errors_keep_their_traceback():
    with pytest.raises(KeyError):
        run_cli(raising(KeyError("bug")))


def test_characters_outside_the_locale_are_escaped(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    with pytest.raises(SystemExit) as end:
        run_cli(lambda: print("1 ± 2"))
    assert (end.value.code, sys.stdout.buffer.getvalue()) == (0, b"1 \\xb1 2\n")
