"""Facts about this machine: cores, processor, memory, versions.

Runs log them; recipes and benchmarks decide by them.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from diverse_mha import __version__
from diverse_mha.common.files import ROOT

IMITATED_BFLOAT16 = (
    "this processor has no bfloat16 arithmetic and emulates it, which can take ten times as long "
    "as float32"
)


def cores() -> int:
    """Return the number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def computes_in_bfloat16(description: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Return True if the processor computes in bfloat16; None if unknown.

    ``DIVERSE_MHA_BFLOAT16=0`` or ``1`` overrides the detection.
    """
    if (given := os.environ.get("DIVERSE_MHA_BFLOAT16", "")) in ("0", "1"):
        return given == "1"
    try:
        words = set(description.read_text(encoding="utf-8").split())
    except OSError:
        return None
    if not words & {"flags", "Features"}:  # the keys of x86 and ARM
        return None
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def installed(*names: str) -> dict[str, str]:
    """Return name -> version of the distributions in ``names`` that are installed."""
    import importlib.metadata  # here, because the import is slow

    by_name = {}
    for name in names:
        try:
            by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_name


def resident_bytes() -> tuple[int, int]:
    """Return this process's current and peak resident memory in bytes.

    Outside Linux the peak is returned for both. On Linux ``ru_maxrss`` is not used, because it
    starts at the peak of the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        now, peak = (int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
        return now, peak
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    return peak, peak


def versions() -> dict:
    """Return the versions of Python and libraries, and in a clone the commit."""
    result = {"python": platform.python_version(), "diverse_mha": __version__}
    result |= installed("torch", "numpy", "fairseq", "fairseq-fixed")
    if (ROOT / ".git").exists() and shutil.which("git"):
        words = "describe --always --exclude=* --dirty --abbrev=40".split()  # commit, not tags
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
        if done.returncode == 0:
            result["git_commit"] = done.stdout.strip()
    return result
