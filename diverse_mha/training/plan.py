"""Shows what a training with a recipe would do: ``train --config NAME --dry-run``."""

import os
from pathlib import Path

from omegaconf import OmegaConf

from diverse_mha.common.errors import UserError
from diverse_mha.common.progress import counted
from diverse_mha.training import batch, precision
from diverse_mha.training.request import Request


def describe(job: Request) -> str:
    """Return the composed recipe as YAML, with the plan in comments at its end."""
    group = {name: job.recipe.get(name) or {} for name in ("dataset", "optimization")}
    folder = str(job.setting("checkpoint", "save_dir") or "checkpoints")
    folder = folder.replace("${hydra:runtime.cwd}/", "")
    last = Path(folder, "checkpoint_last.pt")
    data = str(job.setting("task", "data")).replace("${hydra:runtime.cwd}/", "")
    processes = batch.processes_of(job)
    (frequency, *_), divided = batch.divide(job, processes)
    limits = {"max_tokens": "tokens", "batch_size": "examples"}
    sizes = [
        f"{_times(group['dataset'][key], processes * frequency)} {unit}"
        for key, unit in limits.items()
        if group["dataset"].get(key)
    ]
    ends = [
        f"{key} {group['optimization'][key]}"
        for key in ("max_update", "max_epoch")
        if group["optimization"].get(key)
    ]
    try:
        _, note = precision.choose(job)
    except UserError as refused:
        note = str(refused)
    missing = "" if os.path.exists(data) or "${" in data else " (missing)"
    lines = [
        f"data: {data}{missing}",
        f"run: {folder} ({f'resumes {last}' if last.is_file() else 'new'})",
        f"an update: up to {' and '.join(sizes)} in {counted(processes, 'process')}"
        if sizes
        else "",
        f"ends at: {', '.join(ends)}" if ends else "ends at: no limit",
        divided,
        note,
    ]
    plan = "\n".join(f"#   {line}" for line in lines if line)
    return f"{OmegaConf.to_yaml(OmegaConf.create(job.recipe))}\n# Nothing is trained. Plan:\n{plan}"


def _times(size: object, batches: int) -> str:
    """Return the product as text; of an interpolation, which only Hydra resolves, both factors."""
    return f"{batches:,} times {size}" if "${" in str(size) else f"{int(size) * batches:,}"
