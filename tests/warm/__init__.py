"""Python commands that start at once, for tests that run many.

A new Python takes four seconds of processor time to import torch and fairseq. Here a server has
imported them, and a folder of stand-ins for ``python`` and the installed commands has each command
run in a process forked off the server: with arguments, folder, variables, standard streams and exit
code of its own. This package is imported by each anew. Commands of another form than
``python [-W filter] -m module`` and ``python file.py`` go to the real Python.
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
    """The server and its stand-ins.

    Attributes:
        bin: Folder of the stand-ins, for ``PATH``.
        python: The stand-in for ``sys.executable``.
        variables: What they need in the environment.
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
            stdin=subprocess.PIPE,  # its end, when this process ends, is the server's
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout.readline() == b"ready\n"


@functools.cache
def server() -> Server:
    """The one server of this process, started by the first who asks."""
    return Server()
