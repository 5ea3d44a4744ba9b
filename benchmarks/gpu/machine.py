"""The machine, and what attention costs at new shapes."""

import subprocess
from collections import defaultdict
from functools import partial
from itertools import product

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.gpu.findings import part, put
from benchmarks.gpu.plan import Setting
from benchmarks.report import describe_machine
from benchmarks.rounds import milliseconds

SHOWN = "driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"


def facts(setting: Setting) -> None:
    """Versions, and what the card says of itself."""
    machine = describe_machine(setting.device, torch.get_num_threads())
    put("machine", machine["gpu"] or machine["processor"], cores=machine["cores"],
        cudnn=torch.backends.cudnn.version(), **machine["versions"])  # fmt: skip
    if not setting.small:
        command = ["nvidia-smi", f"--query-gpu={SHOWN}", "--format=csv,noheader"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
        put("machine", SHOWN, value=said.strip())


def attention(setting: Setting) -> None:
    """Forward and backward, the first time and later, with and without cuDNN."""
    batch, heads, width = (4, 4, 16) if setting.small else (64, 8, 64)
    kinds = product((torch.bfloat16, torch.float32), ("padding", "causal", "full"), (False, True))
    for dtype, kind, cudnn in kinds:
        title = f"{dtype}, {kind}, {'with' if cudnn else 'without'} cuDNN"
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        times = defaultdict(list)

        def work(shape: tuple, like: dict, kind=kind) -> None:
            q, k, v = (torch.randn(shape, **like, requires_grad=True) for _ in range(3))
            mask = torch.zeros(batch, 1, 1, shape[2], **like) if kind == "padding" else None
            scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal").sum().backward()

        with part("attention", title):
            for length in (21, 22, 23) if cudnn else (25, 26, 27):  # shapes that are new to both
                shape, like = (batch, heads, length, width), {"device": setting.device}
                call = partial(work, shape, {**like, "dtype": dtype})
                times["first"].append(milliseconds(call, setting.device, 1, 0)[0])
                times["later"].append(milliseconds(call, setting.device, 5, 0)[0])
            put("attention forward and backward, ms by length", title, **times)
