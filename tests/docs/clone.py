"""Runs documented commands in fresh clones, as a reader does."""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

from tests import warm
from tests.corpora.scripts import unchecked
from tests.docs import archives, table
from tests.docs.blocks import ROOT, Command

SECONDS = 300  # time limit of a command
ASSIGNMENT = re.compile(r'\w+=("[^"]*"|\([^)]*\)|\S*)')
# Commands run without network and GPU, and pip installs nothing.
SETTINGS = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "PIP_NO_INDEX": "1",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}


class Clone:
    """A clone of the repository with the uncommitted changes of the working tree."""

    def __init__(self, folder: Path):
        self.folder, self.assigned = folder, ""

    @classmethod
    def make(cls, folder: Path, archives: Path) -> "Clone":
        """Clone into ``folder``; link ``archives``, a folder of published files or stand-ins."""
        subprocess.run(["git", "clone", "-q", "--shared", ROOT, folder], check=True)
        changed = subprocess.run(
            ["git", "diff", "--binary", "HEAD"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        if changed:
            subprocess.run(["git", "apply"], cwd=folder, input=changed, check=True)
        for script in (folder / "data-prep").glob("prepare-*.sh"):
            script.write_text(unchecked(script.read_text()))
        (folder / "archives").symlink_to(archives)
        (folder / ".venv").symlink_to(sys.prefix)
        return cls(folder)

    def run(self, text: str) -> tuple[int, str]:
        """Run a command; return its exit code and output."""
        if ASSIGNMENT.fullmatch(text):
            self.assigned += text + "\n"
            return 0, ""
        # Commands run on the warm server, so they need not import torch and fairseq again.
        python = warm.server()
        environment = {**os.environ, **table.VARIABLES, **SETTINGS, **python.variables}
        environment["PATH"] = f"{python.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment["DIVERSE_MHA_PYTHON"] = str(python.python)
        environment.pop("PYTHONSAFEPATH", None)  # set by scripts/test.sh
        try:
            done = subprocess.run(
                ["bash", "-c", f"{self.assigned}{text}"],
                cwd=self.folder,
                env={**environment, "PYTHONPATH": str(self.folder)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 124, f"not ready after {SECONDS} s"
        return done.returncode, done.stdout

    def untracked(self) -> set[str]:
        """Return the untracked files, except those of the tests."""
        status = ["git", "status", "--porcelain"]
        done = subprocess.run(status, cwd=self.folder, capture_output=True, text=True, check=True)
        new = {line[3:] for line in done.stdout.splitlines() if line.startswith("??")}
        return new - {"archives", "published/"}

    def complaint(self, command: Command) -> str | None:
        """Run a documented command; return a description of its failure, or None."""
        text = table.runnable(command.page, command.text)
        code, output = self.run(text)
        if not code and "Traceback (most recent call last)" not in output:
            return None
        last = "\n".join(f"    {line}" for line in output.splitlines()[-12:])
        return f"{command.place}: {command.text}\n  run as: {text}\n  exit code {code}:\n{last}"


class World:
    """Data and models that pages require, each made once by its documented command."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        with self._alone():
            if not (folder / "archives").exists():
                (folder / "archives").mkdir()
                archives.write(folder / "archives")
                Clone.make(folder / "clone", folder / "archives")

    def _alone(self):
        """Lock the folder against other test processes; closing the file releases the lock."""
        lock = open(self.folder / "lock", "w")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def clone(self, folder: Path, page: str) -> Clone:
        """Return a new clone with the data and models that a page requires."""
        clone = Clone.make(folder, self.folder / "archives")
        for place, name in table.GIVEN.get(page, {}).items():
            made = self._made(name)
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-rl", made, folder / place], check=True)
        return clone

    def _made(self, name: str) -> Path:
        """Return a folder with data or a model.

        If it does not exist, make it and the folders before it in ``table.WORLD``.
        """
        kept = next(key for key in table.WORLD if f"{name}/".startswith(f"{key}/"))
        world, last = Clone(self.folder / "clone"), list(table.WORLD).index(kept)
        stamps = [self.folder / f"made {needed.replace('/', ' ')}" for needed in table.WORLD]
        if not stamps[last].exists():
            with self._alone():
                for stamp, commands in list(zip(stamps, table.WORLD.values(), strict=True))[
                    : last + 1
                ]:
                    for text in () if stamp.exists() else commands:
                        code, output = world.run(table.runnable("", text))
                        assert code == 0, f"{text}\n{output[-3000:]}"
                    stamp.touch()
        return world.folder / name
