"""The machine."""

import subprocess

import torch

from benchmarks.gpu.findings import put
from benchmarks.gpu.plan import Setting
from benchmarks.report import describe_machine

SHOWN = "driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"


def facts(setting: Setting) -> None:
    """Write down versions, and what the card says of itself."""
    machine = describe_machine(setting.device, torch.get_num_threads())
    put("machine", machine["gpu"] or machine["processor"], cores=machine["cores"],
        cudnn=torch.backends.cudnn.version(), **machine["versions"])  # fmt: skip
    if not setting.small:
        command = ["nvidia-smi", f"--query-gpu={SHOWN}", "--format=csv,noheader"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
        put("machine", SHOWN, value=said.strip())
