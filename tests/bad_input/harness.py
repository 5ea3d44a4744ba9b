"""Runs a command with wrong input in this process, and checks its message and all files."""

import importlib
import logging
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from diverse_mha import cli
from diverse_mha.common.errors import UserError, run_cli


class Row(NamedTuple):
    """A command with wrong input.

    Attributes:
        name: What is wrong, in a few words; also the id of the test.
        command: The command line. It runs in the folder of ``conftest.world``.
        culprit: Part of the message: the wrong file or option and its value.
        cure: Part of the message: what to do.
    """

    name: str
    command: str
    culprit: str
    cure: str


#: Modules that read their arguments from ``sys.argv``.
FAIRSEQ = {
    f"fairseq-{name}": f"fairseq_cli.{name.replace('-', '_')}"
    for name in ("train", "generate", "interactive", "validate", "eval-lm")
}


def entry_point(words: list[str]) -> Callable[[], object]:
    """Return the main function of a command."""
    name, *rest = words
    if name in cli.COMMANDS:
        return lambda: cli.run([name, *rest])
    return importlib.import_module(FAIRSEQ[name]).cli_main


def run_to_exit(command: str, monkeypatch, capsys) -> tuple[int, str]:
    """Run a command; return its exit code and its output on stderr."""
    words = shlex.split(command)
    monkeypatch.setattr(sys, "argv", list(words))
    # Ignore errors of fairseq's log handler. It writes to the stream that was sys.stdout when
    # fairseq was imported.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    capsys.readouterr()
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    try:
        if words[0] in FAIRSEQ:
            entry_point(words)()
        else:
            run_cli(entry_point(words))
    except SystemExit as end:
        if not isinstance(end.code, str):
            return end.code, capsys.readouterr().err
        print(end.code, file=sys.stderr)  # as the interpreter does at exit
    except UserError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    return 1, capsys.readouterr().err


def tree(folder: Path) -> dict[str, tuple]:
    """Return the size, modification time and mode of every file and link below a folder, by path.

    Subfolders are included with their mode only.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        found[str(path.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns, stat.st_mode)
        if path.is_dir() and not path.is_symlink():
            found[str(path.relative_to(folder))] = (stat.st_mode,)
    return found


def check(row: Row, world: Path, monkeypatch, capsys) -> None:
    """Assert that the command fails in one line with culprit and cure, and changes no file."""
    before = tree(world)
    code, printed = run_to_exit(row.command, monkeypatch, capsys)
    lines = [line for line in printed.splitlines() if line.strip()]
    assert code not in (0, None)
    assert len(lines) == 1, printed
    assert lines[0].startswith("error: ")
    assert row.culprit in lines[0], lines[0]
    assert row.cure in lines[0], lines[0]
    after = tree(world)
    changed = [path for path in before | after if before.get(path) != after.get(path)]
    assert not changed, f"left behind or changed: {changed}"
