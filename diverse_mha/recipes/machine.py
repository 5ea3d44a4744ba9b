"""What this machine makes of a recipe: batches of each process, precision, and the plan in words.

``train`` and ``run`` ask :func:`adapt` before a training, and ``train --dry-run`` prints
:func:`describe`; both after ``configuration.check`` has checked the recipe's values.
"""

import os
from pathlib import Path
from typing import Any

from diverse_mha.common.errors import UserError
from diverse_mha.common.machine import computes_in_bfloat16
from diverse_mha.common.progress import counted
from diverse_mha.recipes.recipe import Recipe, spell

UPDATE_FREQ, BF16 = "optimization.update_freq", "common.bf16"
Changes = dict[str, Any]  # settings by dotted key


def processes_of(recipe: Recipe, asked: int | None = None) -> int:
    """Return the number of processes: as asked, as in the recipe, else the number of GPUs, or 1."""
    given = asked or recipe.get("distributed_training.distributed_world_size")
    if given is not None:
        return max(1, int(given))
    if recipe.get("common.cpu"):
        return 1
    import torch

    return max(1, torch.cuda.device_count())


def share_batches(recipe: Recipe, processes: int) -> tuple[Changes, str]:
    """Return each process's ``update_freq``, and a note; both are empty for one process.

    ``optimization.update_freq`` is the number of batches in an update of all processes together,
    in the recipe and on the command line alike. Each process gets an equal share, rounded, of at
    least one batch.
    """
    wanted = [int(number) for number in recipe.get(UPDATE_FREQ, [1])]
    if any(number < 1 for number in wanted):
        given = "" if UPDATE_FREQ in recipe.given else f"{recipe.path}: "
        raise UserError(f"{given}{UPDATE_FREQ}={spell(wanted)}: must be at least 1; give [4]")
    if processes == 1:
        return {}, ""
    shares = [max(1, round(number / processes)) for number in wanted]
    rounded = [share * processes for share in shares]
    each = f"{_list(shares)} in each of {processes} processes"
    note = f"batch: {_list(wanted)} batches per update, {each}"
    if rounded != wanted:
        note = (
            f"batch: {_list(rounded)} batches per update instead of the recipe's {_list(wanted)}, "
            f"which {processes} processes cannot share equally"
        )
    return {UPDATE_FREQ: shares}, note


def choose_precision(recipe: Recipe, before: bool | None = None) -> tuple[Changes, str]:
    """Return the precision of a training, and a note that explains it.

    A recipe with ``bf16: true`` trains in float32 on a processor without bfloat16 arithmetic.
    ``common.bf16`` on the command line wins.

    Args:
        recipe: the recipe.
        before: True if the run to resume trains in bfloat16; None if there is none.

    Raises:
        UserError: for fp16 without a GPU, except for the two variants that run on a CPU.
    """
    import torch

    gpu = torch.cuda.is_available() and not recipe.get("common.cpu")
    on_a_cpu = ("common.memory_efficient_fp16", "common.fp16_no_flatten_grads")
    if recipe.get("common.fp16") and not gpu and not any(map(recipe.get, on_a_cpu)):
        raise UserError("common.fp16=true: needs a GPU; give common.fp16=false")
    if BF16 in recipe.given or not recipe.get(BF16):
        return {}, ""
    if before is not None:
        name = "bfloat16" if before else "float32"
        return {BF16: before}, (
            f"precision: {name}, as in the checkpoint; common.bf16=true or false changes it"
        )
    if gpu or computes_in_bfloat16() is not False:
        return {}, "precision: bfloat16"
    return {BF16: False}, (
        "precision: float32, as this processor emulates bfloat16; common.bf16=true forces bfloat16"
    )


def adapt(recipe: Recipe, processes: int, before: bool | None) -> tuple[Changes, list[str]]:
    """Return what this machine changes in a recipe, and notes for the log.

    Args:
        recipe: the recipe.
        processes: number of processes that share an update's batches.
        before: as for :func:`choose_precision`.
    """
    precision, chosen = choose_precision(recipe, before)
    batches, divided = share_batches(recipe, processes)
    return {**precision, **batches}, [note for note in (chosen, divided) if note]


def describe(recipe: Recipe, processes: int, before: bool | None = None) -> str:
    """Return the composed recipe as YAML, with the plan in comments at its end."""
    data, folder = str(recipe.get("task.data")), Path(str(recipe.get("checkpoint.save_dir")))
    last = folder / "checkpoint_last.pt"
    changes, divided = share_batches(recipe, processes)
    frequency = changes.get(UPDATE_FREQ, recipe.get(UPDATE_FREQ, [1]))[0]
    limits = {"max_tokens": "tokens", "batch_size": "examples"}
    sizes = [
        f"{int(size) * processes * frequency:,} {unit}"
        for key, unit in limits.items()
        if (size := recipe.get(f"dataset.{key}"))
    ]
    ends = [
        f"{key} {value}"
        for key in ("max_update", "max_epoch")
        if (value := recipe.get(f"optimization.{key}"))
    ]
    try:
        _, precision = choose_precision(recipe, before)
    except UserError as refused:
        precision = str(refused)
    lines = [
        f"data: {data}{'' if os.path.exists(data) else ' (missing)'}",
        f"run: {folder} ({f'resumes {last}' if last.is_file() else 'new'})",
        f"an update: up to {' and '.join(sizes)} in {counted(processes, 'process')}"
        if sizes
        else "",
        f"ends at: {', '.join(ends) or 'no limit'}",
        divided,
        precision,
    ]
    plan = "\n".join(f"#   {line}" for line in lines if line)
    return f"{recipe.to_yaml()}\n# Nothing is trained. Plan:\n{plan}"


def _list(numbers: list[int]) -> str:
    return ", then ".join(map(str, numbers))
