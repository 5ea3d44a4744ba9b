"""The result of a run: one JSON file, written whole once everything is known."""

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json
from diverse_mha.common.processes import cores, processor, versions
from diverse_mha.training.compose import lookup
from diverse_mha.training.log import TRAIN_LOG, read_log
from experiments.plan import Run

RESULT = "result.json"
LOG = "log.txt"  # the commands and all they print
_SCORES = ("test.json", "valid.json", "accuracy.json")


def read(path: Path) -> dict | None:
    """Read a JSON file of a run's folder, or None where it is not there yet."""
    return read_json(path, "delete it and run again") if path.is_file() else None


def collect(
    run: Run, folder: Path, seconds: Mapping[str, float], commands: list[str], gpus: int
) -> dict:
    """Gather a run's result from the files of its steps; ``seconds`` are their durations."""
    path = folder / TRAIN_LOG
    log = read_log(path) if path.is_file() else {"updates": None}
    if log["updates"] is None:
        raise UserError(f"{path}: no training in it; delete {folder} and run again")
    best = best_validation(run, log["validation"])
    scores = {}
    for name in _SCORES:
        kept = read(folder / name)
        if kept is not None:
            kept.pop("versions", None)
            scores[name.removesuffix(".json")] = kept
    return {
        "name": run.name,
        "key": run.key,
        "scale": run.scale,
        "recipe": run.recipe.config,
        "choices": dict(run.choices),
        "changed": dict(run.settings),
        "settings": dict(run.composed),
        "seed": run.seed,
        "updates": log["updates"],
        "parameters": log["parameters"],
        "steps_per_second": log["steps_per_second"],
        "valid_perplexity": best and best["ppl"],
        "scores": scores,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "commands": commands,
        "hardware": {
            "processor": processor(),
            "cores": cores(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "gpus": [torch.cuda.get_device_name(number) for number in range(gpus)],
        },
        "versions": versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def valid_nll(run: Run, folder: Path) -> float | None:
    """Return the validation loss of the best checkpoint, bits a token; None of a classifier."""
    best = best_validation(run, read_log(folder / TRAIN_LOG)["validation"])
    # With label smoothing the loss is another thing.
    return best and best.get("nll_loss", best["loss"])


def best_validation(run: Run, validation: list[dict]) -> dict | None:
    """Return the validation that chose the best checkpoint, None for a classifier.

    Of equal scores (rounded, as in the log) it is the last, as in fairseq.
    """
    metric = lookup(run.composed, "checkpoint.best_checkpoint_metric") or "loss"
    choose = max if lookup(run.composed, "checkpoint.maximize_best_checkpoint_metric") else min
    scored = [entry for entry in validation if metric in entry and "ppl" in entry]
    scored = [entry for entry in scored if math.isfinite(entry[metric])]
    return choose(reversed(scored), key=lambda entry: entry[metric]) if scored else None
