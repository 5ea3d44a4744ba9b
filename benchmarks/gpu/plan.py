"""The jobs of a check, most important first."""

import importlib
import sys
from pathlib import Path
from typing import NamedTuple

import torch

MINUTES = 9  # that the jobs' seconds are meant for; few need all of theirs


class Setting(NamedTuple):
    """What a job is told."""

    device: torch.device
    data: Path  # binarised corpus for the training
    coda: Path | None  # the authors' ``coda_transformer.py``

    @property
    def small(self) -> bool:
        """Whether shapes are those of a rehearsal."""
        return self.device.type == "cpu"


# What it shows, its seconds at most, and the module and function that do it.
JOBS = {
    "facts": ("the machine", 30, "machine.facts"),
    "kernel": ("CODA's kernel: is it right", 60, "tests.kernel"),
    "kernel-speed": ("CODA's kernel: how fast is it", 45, "kernel.speed"),
    "bf16": ("Base in bfloat16, small and large batches", 120, "steps.bf16"),
    "tests": ("token loss, operations, models and waits beside the CPU", 110, "tests.operations"),
    "fp16": ("Base in float16", 60, "steps.fp16"),
    "training": ("300 updates of CODA by fairseq-train", 45, "training.train"),
    "resume": ("a resumed run beside an uninterrupted one", 90, "tests.resume"),
}


def main(name: str, device: str, data: str, coda: str = "") -> None:
    """Do one job, in this process."""
    module, _, function = JOBS[name][2].partition(".")
    setting = Setting(torch.device(device), Path(data), Path(coda) if coda else None)
    getattr(importlib.import_module(f"benchmarks.gpu.{module}"), function)(setting)


if __name__ == "__main__":
    main(*sys.argv[1:])
