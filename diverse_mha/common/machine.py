"""The versions that a result depends on."""

import importlib.metadata
import platform
import subprocess

from diverse_mha import __version__
from diverse_mha.common.places import ROOT


def versions() -> dict:
    """Return the versions that a result depends on, and the commit in a git checkout."""
    found = {"python": platform.python_version(), "diverse_mha": __version__}
    for name in ("torch", "fairseq", "fairseq-fixed"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if (ROOT / ".git").exists():
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"],
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:  # no git
            return found
        if done.returncode == 0:
            found["git_commit"] = done.stdout.strip()
    return found
