"""How the numbers came about: command, time, versions and checkpoints."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from diverse_mha.common.machine import versions


def made_by(words: Sequence[str]) -> dict:
    """Return ``command`` (to paste into a shell), ``date`` (UTC) and ``versions``, for JSON."""
    return {
        "command": shlex.join(["diverse-mha", *words]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "versions": versions(),
    }


def described(made: dict) -> dict[str, str]:
    """Turn :func:`made_by` into lines with headings for a page."""
    others = {name: value for name, value in made["versions"].items() if name != "git_commit"}
    commit = made["versions"].get("git_commit", "not a git checkout")
    return {
        "command": made["command"],
        "date": made["date"],
        "commit of diverse-mha": commit,
        "versions": ", ".join(f"{name} {version}" for name, version in others.items()),
    }
