"""Python commands that start at once, because they are forked from a server.

A new Python process takes four seconds of processor time to import torch and fairseq. The server
has imported them. Stand-ins for ``python`` and the installed commands run each command in a process
forked from the server, with its own arguments, folder, variables, standard streams and exit code.
Every command imports this package anew. Commands other than ``python [-W filter] -m module`` and
``python file.py`` run in the real Python.
"""

import fcntl
import functools
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Server:
    """The server and its stand-ins for Python.

    Attributes:
        bin: Folder of the stand-ins, for ``PATH``.
        python: The stand-in for ``sys.executable``.
        variables: Environment variables that the stand-ins need.
    """

    def __init__(self, folder: Path):
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self._socket = folder / "socket"
        self.variables = {"WARM_PYTHON": str(self._socket)}

    def start(self, owner: int) -> None:
        """Start the server unless it runs. It ends when the process with id ``owner`` ends."""
        if self._socket.exists():
            return
        self.bin.mkdir(exist_ok=True)
        client = shlex.join([sys.executable, "-IS", str(HERE / "client.py")])
        self.python.write_text(f'#!/bin/sh\nexec {client} "$0" "$@"\n', encoding="utf-8")
        self.python.chmod(0o755)
        real = Path(sys.executable).parent
        for command in ("diverse-mha", *(path.name for path in real.glob("fairseq-*"))):
            (self.bin / command).symlink_to("python")
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, HERE / "server.py", self._socket, self.python, str(owner)],
            cwd="/",
            env=environment | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout.readline() == b"ready\n"


@functools.cache
def server() -> Server:
    """Return the server of this test session, started on first use."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if session is None:
        folder, owner = Path(tempfile.mkdtemp(prefix="warm-")), os.getpid()
    else:  # the processes of pytest-xdist share a server
        folder, owner = Path(tempfile.gettempdir(), f"warm-{session}"), os.getppid()
        folder.mkdir(mode=0o700, exist_ok=True)
    shared = Server(folder)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shared.start(owner)
    return shared
