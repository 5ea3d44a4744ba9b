"""The ``sh`` blocks of the documentation, and the commands in them.

A block that cannot be run here has a comment before it, which readers do not see and which gives
the reason::

    <!-- not run: needs eight GPUs -->
"""

import re
import subprocess
from typing import NamedTuple

from diverse_mha.common.files import ROOT

MARK = re.compile(r"<!-- not run: (.+) -->")


class Command(NamedTuple):
    """A command as it stands on a page."""

    page: str  # as in docs/data.md
    line: int  # its first
    text: str  # with its continuation lines, without a comment behind it
    not_run: str | None  # the reason that the block's mark gives

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page with a block of commands, README first."""
    paths = [
        ROOT / "README.md",
        *sorted(ROOT.glob("docs/*.md")),
        *sorted(ROOT.glob("results/*.md")),
    ]
    return [str(path.relative_to(ROOT)) for path in paths if "\n```sh\n" in path.read_text()]


def commands(page: str) -> list[Command]:
    """All commands of a page, in order."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found, mark, number = [], None, 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line == "```sh":
            end = lines.index("```", number)
            found += _commands(page, number + 1, lines[number:end], mark)
            number = end + 1
        match = MARK.fullmatch(line)
        mark = match[1] if match else mark if not line else None
    return found


def _commands(page, first, lines, mark):
    """Cut a block where bash would: after a line that ends a command."""
    start, text = first, ""
    for number, line in enumerate(lines, first):
        if not text and not line.partition("#")[0].strip():
            continue
        start = start if text else number
        text += line + "\n"
        if not line.endswith("\\") and complete(text):
            yield Command(page, start, text.strip(), mark)
            text = ""
    assert not text, f"{page}:{start}: bash does not understand\n{text}"


def complete(text: str) -> bool:
    """Whether bash can parse the text, so that no quote or bracket is open."""
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    return done.returncode == 0
