"""Runs Python commands in forked processes, after importing large libraries once.

usage: python server.py SOCKET PYTHON PROCESS
It ends when the process with the id PROCESS ends.
"""

import ast
import atexit
import builtins
import gc
import importlib
import importlib.machinery
import logging
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import threading
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INSTALLED = [path for path in sys.path if path != HERE]  # Python's search path


class Fairseq:
    """Import hook that takes fairseq from memory, and sets up logging as fairseq's import does."""

    def __init__(self):
        leave_out_what_text_does_not_need()
        import fairseq.checkpoint_utils
        import fairseq.sequence_generator
        import fairseq.trainer

        names = [name for name in sys.modules if name.partition(".")[0] == "fairseq"]
        self.modules = {name: sys.modules.pop(name) for name in names}
        self.package, self.spec = fairseq, fairseq.__spec__
        root = logging.getLogger()
        self.level, self.handlers = root.level, root.handlers[:]
        root.handlers.clear()
        root.setLevel(logging.WARNING)
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name == "fairseq":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return self.package

    def exec_module(self, module):
        module.__spec__ = self.spec
        sys.modules.update(self.modules)
        root = logging.getLogger()
        if not root.handlers:
            root.handlers[:] = self.handlers
            root.setLevel(self.level)


def leave_out_what_text_does_not_need() -> None:
    """Let fairseq's import leave out what it does in a command, then forget this package."""
    sys.path.insert(0, ROOT)
    importlib.import_module("diverse_mha.common.on_import").cancel("fairseq")
    sys.path.remove(ROOT)
    for name in [name for name in sys.modules if name.partition(".")[0] == "diverse_mha"]:
        del sys.modules[name]


def import_libraries() -> None:
    """Import the commands' libraries, except ``fairseq_cli``, which sets up logging."""
    import matplotlib.pyplot  # noqa: F401
    import sacrebleu  # noqa: F401
    import sacremoses  # noqa: F401
    import torch._dynamo  # noqa: F401

    with warnings.catch_warnings(action="ignore"):
        Fairseq()


def serve(address: str, python: str, process: str) -> None:
    """Run commands until the process with id ``process`` ends; then wait for running commands."""
    owner = os.pidfd_open(int(process))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    os.write(1, b"ready\n")
    while owner not in select.select([listening, owner], [], [])[0]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            answer(connection, python)
        connection.close()
        reap(os.WNOHANG)
    reap(0)
    shutil.rmtree(os.path.dirname(address))


def reap(options: int) -> None:
    """Wait for child processes, so that their processor time counts as the tests'.

    ``options``: ``os.WNOHANG`` for finished processes only, or 0 for all.
    """
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def answer(connection: socket.socket, python: str) -> None:
    """Run the command in a child process, send its exit code, and exit."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    state = b""
    while len(state) < int.from_bytes(size, "big"):
        state += connection.recv(1 << 16)
    words, folder, variables = ast.literal_eval(state.decode("utf-8", "surrogateescape"))
    child = os.fork()
    if child == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.executable = python
        end(become(words))
    for number, stream in enumerate(streams):
        os.close(number), os.close(stream)
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, connection], [], [])[0]:  # the client was killed
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        connection.send(str(code).encode())
    finally:
        os._exit(0)


def become(words: list[str]) -> int:
    """Run ``python *words`` in this process; return its exit code."""
    while words[0] == "-W":
        action, _, category = words[1].partition("::")
        warnings.simplefilter(action, getattr(builtins, category))
        words = words[2:]
    module = words[0] == "-m"
    sys.argv = ["-m", *words[2:]] if module else words  # runpy replaces -m by the file's name
    first = os.getcwd() if module else os.path.dirname(os.path.abspath(words[0]))
    search = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if not os.environ.get("PYTHONSAFEPATH"):
        search.insert(0, first)
    sys.path[:] = [*filter(None, search), *INSTALLED]
    try:
        if module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(code: int) -> None:
    """Exit as the interpreter does, but without freeing memory object by object."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    os._exit(code & 255)


if __name__ == "__main__":
    import_libraries()
    gc.freeze()
    serve(*sys.argv[1:])
