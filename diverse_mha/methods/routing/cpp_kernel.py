"""Builds ``kernel.cpp`` with the machine's C++ compiler, and calls it."""

import ctypes
import functools
import hashlib
import inspect
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from diverse_mha.common.ranges import COUNT
from diverse_mha.methods.routing.algorithms import (
    check_softmax_over,
    em_routing,
    inverse_temperatures,
    simple_routing,
)

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("kernel.cpp")
FLAGS = "-O3 -march=native -std=c++17 -fopenmp -fno-math-errno -fno-trapping-math -shared -fPIC"


class KernelRouting:
    """Routing of scalar votes on the CPU in float32 by compiled code, forward and backward.

    Args:
        routing: :func:`em_routing` or :func:`simple_routing`.
        options: the keyword arguments of ``routing``.

    Raises:
        ValueError: for an illegal option, or if the code cannot be built or loaded.
    """

    def __init__(self, routing: Callable[..., Tensor], options: dict[str, Any]):
        bound = inspect.signature(routing).bind(None, **options)
        bound.apply_defaults()
        self.routing, self.options = routing, bound.arguments
        library = native_code()
        if library is None:
            raise ValueError("routing: there is no compiled code; see the warning before")
        self.compiled = library
        COUNT.check("iterations", self.options["iterations"])
        if routing is simple_routing:
            check_softmax_over(self.options["softmax_over"])

    @staticmethod
    def fits(routing: Callable[..., Tensor], votes: Tensor) -> bool:
        """Return True if compiled code exists for the routing and takes these votes."""
        return (
            routing in (em_routing, simple_routing)
            and votes.device.type == "cpu"
            and votes.dtype == torch.float32
            and votes.size(3) == 1
            and native_code() is not None
        )

    def forward(self, votes: Tensor) -> Tensor:
        """Route (K, H, N, 1) votes to capsules (K, N, 1)."""
        result = votes.new_empty(votes.size(0), votes.size(2), 1)
        self._call(votes.contiguous(), None, result)
        return result

    def backward(self, votes: Tensor, grad: Tensor) -> Tensor:
        """Return the gradient of the votes, (K, H, N, 1), from that of the capsules, (K, N, 1)."""
        result = votes.new_empty(votes.shape)
        self._call(votes.contiguous(), grad.contiguous(), result)
        return result

    def _call(self, votes: Tensor, grad: Tensor | None, result: Tensor) -> None:
        options, (tokens, num_heads, capsules, _) = self.options, votes.shape
        arguments = (  # ctypes passes Python's whole numbers as int
            *(x if x is None else ctypes.c_void_p(x.data_ptr()) for x in (votes, grad, result)),
            *(ctypes.c_int64(tokens), num_heads, capsules, options["iterations"]),
        )
        threads = torch.get_num_threads()
        if self.routing is em_routing:
            temperatures = inverse_temperatures(options["iterations"])
            self.compiled.route_em(
                *arguments,
                options["activation"],
                ctypes.c_float(options["activation_cost"]),
                ctypes.c_float(options["input_cost"]),
                ctypes.c_float(options["variance_floor"]),
                (ctypes.c_float * len(temperatures))(*temperatures),
                threads,
            )
        else:
            over_capsules = options["softmax_over"] == "capsules"
            self.compiled.route_simple(*arguments, over_capsules, threads)


@functools.lru_cache(maxsize=1)
def native_code() -> ctypes.CDLL | None:
    """Return the compiled library, or None, with a warning, if it cannot be built or loaded."""
    try:
        return ctypes.CDLL(str(build()))
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        logger.warning("routing runs without compiled code, and slower: %s", error)
        return None


def build() -> Path:
    """Compile ``kernel.cpp`` into the user's cache folder, once, and return the library.

    The file name depends on source, flags, compiler and processor, so that machines can share a
    home folder. A half-written file never has that name. The folder must be the user's own, because
    libraries in it are executed.

    Raises:
        RuntimeError: if there is no compiler, or the compiler fails.
        ValueError: if a quote in CXX is not closed.
        OSError: if the file cannot be written.
    """
    compiler = _compiler()
    version = subprocess.run(
        [*compiler, "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    identity = "\0".join([SOURCE.read_text("utf-8"), FLAGS, *compiler, version, _processor()])
    folder = _cache_folder()
    path = folder / f"routing-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, path.name)
        command = [*compiler, *FLAGS.split(), str(SOURCE), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            reason = _first_error(done.stderr)
            raise RuntimeError(f"{compiler[0]} failed on {SOURCE.name}: {reason}")
        made.replace(path)
    return path


def _compiler() -> list[str]:
    """Return the compiler's command; CXX may hold several words, such as ``ccache g++``."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        words = shlex.split(name) if name else []
        if words and shutil.which(words[0]):
            return words
    raise RuntimeError("no C++ compiler found (looked for $CXX, c++, g++, clang++)")


def _processor() -> str:
    """Return a description of the processor, on which ``-march=native`` depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    keys = ("model name", "flags", "Features", "CPU implementer", "CPU part")  # of x86 and ARM
    return "\n".join(sorted({x for x in lines if x.startswith(keys)}))


def _cache_folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "diverse_mha"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        # Libraries in the folder are executed, so others must not be able to replace them.
        raise RuntimeError(f"{folder} is writable by others; run chmod go-w on it, or chown")
    return folder


def _first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines()
    return lines[0].strip() if lines else "no message"
