"""What a result depends on beside its settings: the machine, and the versions on it."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from diverse_mha import __version__
from diverse_mha.common.places import ROOT

IMITATED_BFLOAT16 = (
    "this processor has no arithmetic for bfloat16 and imitates it, which can take ten times as "
    "long as float32"
)


def cores() -> int:
    """Count the cores that this process may use, which a container often limits."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Name the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def computes_in_bfloat16(description: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Whether the processor has arithmetic for bfloat16; None where nothing tells."""
    try:
        words = set(description.read_text(encoding="utf-8").split())
    except OSError:
        return None
    if not words & {"flags", "Features"}:  # x86, ARM
        return None
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def installed(*names: str) -> dict[str, str]:
    """Return the versions of those distributions that are installed."""
    import importlib.metadata  # slow

    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def resident_bytes() -> tuple[int, int]:
    """Resident memory of this process: now, and at its peak.

    Linux tells both of the process itself; its ``ru_maxrss`` would begin with the
    peak of the process that started this one. Elsewhere there is the peak only.
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


#: Names the commit, whatever tags it has.
_DESCRIBE = "describe --always --exclude=* --dirty --abbrev=40"


def versions() -> dict:
    """Return the versions that a result depends on, and the commit in a git checkout."""
    found = {"python": platform.python_version(), "diverse_mha": __version__}
    found |= installed("torch", "numpy", "fairseq", "fairseq-fixed")
    if (ROOT / ".git").exists():
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), *_DESCRIBE.split()],
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:  # no git
            return found
        if done.returncode == 0:
            found["git_commit"] = done.stdout.strip()
    return found
