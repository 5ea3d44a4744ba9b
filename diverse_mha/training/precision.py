"""Chooses the precision of a training with a recipe: bfloat16 if the processor supports it."""

import os
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import computes_in_bfloat16
from diverse_mha.training.request import Request


def choose(job: Request) -> tuple[list[str], str]:
    """Return overrides of a recipe's precision, and a note that explains them.

    A recipe with ``bf16: true`` trains in float32 on a processor without bfloat16 arithmetic. A
    resumed run keeps its precision. ``common.bf16`` on the command line always wins.

    Raises:
        UserError: for fp16 without a GPU, except for the two variants that run on a CPU.
    """
    import torch

    gpu = torch.cuda.is_available() and not job.flag("common", "cpu")
    slow = ("memory_efficient_fp16", "fp16_no_flatten_grads")  # fp16 variants that run on a CPU
    if job.flag("common", "fp16") and not gpu and not any(job.flag("common", k) for k in slow):
        raise UserError("common.fp16=true: needs a GPU; give common.fp16=false")
    given = {word.lstrip("+").partition("=")[0] for word in job.arguments}
    wanted = job.flag("common", "bf16")
    if "common.bf16" in given or not wanted:
        return [], ""
    before = _of_checkpoint(job)
    if before is not None:
        text = "precision: {}, as in the checkpoint; common.bf16=true or false changes it"
        return [f"++common.bf16={str(before).lower()}"], text.format(_name(before))
    if gpu or computes_in_bfloat16() is not False:
        return [], "precision: bfloat16"
    return ["++common.bf16=false"], (
        "precision: float32, as this processor emulates bfloat16; common.bf16=true forces bfloat16"
    )


def _name(bf16: bool) -> str:
    return "bfloat16" if bf16 else "float32"


def _of_checkpoint(job: Request) -> bool | None:
    """Return True if the run to resume trains in bfloat16; None if there is none, or unknown."""
    from diverse_mha.evaluation.checkpoints import load_checkpoint, settings

    folder = str(job.setting("checkpoint", "save_dir") or "checkpoints")
    name = job.setting("checkpoint", "restore_file") or "checkpoint_last.pt"
    path = Path(folder.replace("${hydra:runtime.cwd}", os.getcwd()), name)
    if job.setting("checkpoint", "restore_file"):
        path = Path(name)
    if "${" in str(path) or not path.is_file():
        return None
    try:
        bf16 = settings(load_checkpoint(path, mmap=True), "common").get("bf16")
    except UserError:
        return None  # the training will report the error
    return None if bf16 is None else bool(bf16)
