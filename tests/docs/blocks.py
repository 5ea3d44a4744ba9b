"""Reads the commands in the ``sh`` blocks of the documentation.

A block that tests cannot run has an HTML comment before it with the reason::

    <!-- not run: needs eight GPUs -->
"""

import re
import subprocess
from typing import NamedTuple

from diverse_mha.common.files import ROOT

MARK = re.compile(r"<!-- not run: (.+) -->")


class Command(NamedTuple):
    """A command on a page."""

    page: str  # its path, such as docs/data.md
    line: int  # number of its first line
    text: str  # including continuation lines
    not_run: str | None  # the reason in the comment before the block

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return every page with a block of commands, README first."""
    paths = [
        ROOT / "README.md",
        *sorted(ROOT.glob("docs/*.md")),
        *sorted(ROOT.glob("docs/methods/*.md")),
        *sorted(ROOT.glob("results/*.md")),
        *sorted(ROOT.glob("results/plans/*.md")),
    ]
    return [str(path.relative_to(ROOT)) for path in paths if "\n```sh\n" in path.read_text()]


def commands(page: str) -> list[Command]:
    """Return all commands of a page in order."""
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
    """Yield the commands of a block, as bash separates them."""
    start, text = first, ""
    for number, line in enumerate(lines, first):
        if not text and not line.strip():
            continue
        start = start if text else number
        text += line + "\n"
        if not line.endswith("\\") and complete(text):
            yield Command(page, start, text.strip(), mark)
            text = ""
    assert not text, f"{page}:{start}: bash does not understand\n{text}"


def complete(text: str) -> bool:
    """Return True if bash can parse the text: no quote or bracket is open."""
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    return done.returncode == 0
