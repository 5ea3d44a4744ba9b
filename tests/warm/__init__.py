"""Python commands that start at once, because they are forked from a server.

A new Python process takes four seconds of processor time to import torch and fairseq. The server
has imported them. Stand-ins for ``python`` and the installed commands run each command in a process
forked from the server, with its own arguments, folder, variables, standard streams and exit code.
Every command imports this package anew. Commands other than ``python [-W filter] -m module`` and
``python file.py`` run in the real Python.
"""

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
        variables: Environment variables that they need.
    """

    def __init__(self):
        folder = Path(tempfile.mkdtemp(prefix="warm-"))
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.python = self.bin / "python"
        client = shlex.join([sys.executable, "-IS", str(HERE / "client.py")])
        self.python.write_text(f'#!/bin/sh\nexec {client} "$0" "$@"\n', encoding="utf-8")
        self.python.chmod(0o755)
        real = Path(sys.executable).parent
        for command in ("diverse-mha", *(path.name for path in real.glob("fairseq-*"))):
            (self.bin / command).symlink_to("python")
        address = folder / "socket"
        self.variables = {"WARM_PYTHON": str(address)}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, HERE / "server.py", address, self.python],
            cwd="/",
            env=environment | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,  # closed when this process ends, which stops the server
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout.readline() == b"ready\n"


@functools.cache
def server() -> Server:
    """Return the server of this process, started on first use."""
    return Server()
