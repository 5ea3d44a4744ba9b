"""Asks the server to run a Python command. It imports little, so it starts at once.

usage: python -IS client.py NAME [arguments], where NAME is python or an installed command
"""

import os
import socket
import sys


def real(name: str) -> str:
    return os.path.join(os.path.dirname(sys.executable), name)


def known(words: list[str]) -> bool:
    """Return True if the server can run the command: a module or file, with optional -W filters."""
    while words[:1] == ["-W"]:
        words = words[2:]
    if len(words) > 1 and words[0] == "-m":
        return not words[1].startswith("subword_nmt")  # subword_nmt reopens standard streams
    return bool(words) and words[0].endswith(".py")


def run(words: list[str]) -> int:
    """Send the command, its folder and its environment to the server; return its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ["WARM_PYTHON"])
        state = repr((words, os.getcwd(), dict(os.environ))).encode("utf-8", "surrogateescape")
        socket.send_fds(server, [len(state).to_bytes(8, "big")], [0, 1, 2])
        server.sendall(state)
        answer = server.recv(16)
    return int(answer) if answer else 1


name = os.path.basename(sys.argv[1])
words = sys.argv[2:]
if name != "python":
    words = [real(name), *words]
elif not known(words):
    os.execv(sys.executable, [sys.executable, *words])
code = run(words)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
