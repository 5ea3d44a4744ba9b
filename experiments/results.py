"""The result of a run: one JSON file, written whole once everything is known."""

import math
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import read_json, write_json
from diverse_mha.common.machine import cores, processor, versions
from diverse_mha.common.options import split_list
from diverse_mha.training.compose import lookup
from diverse_mha.training.log import TRAIN_LOG, read_log
from experiments.plan import Run

RESULT = "result.json"
COST = "cost.json"  # of the training, over all its starts that made an update
THREADS, GPUS = "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"  # a command's share of the machine
LOG = "log.txt"  # the commands and all they print
_SCORES = ("test.json", "valid.json", "accuracy.json")


def read(path: Path) -> dict | None:
    """Read a JSON file of a run's folder, or None where it is not there yet.

    Raises:
        UserError: if it is damaged.
    """
    return read_json(path, "delete it and run again") if path.is_file() else None


def collect(
    run: Run,
    folder: Path,
    seconds: dict[str, float],
    commands: list[str],
    share: Mapping[str, str],
    gpus: int,
) -> dict:
    """Gather a run's result from the files its steps left.

    ``seconds`` is the duration of each step after the training, and their processor time; added is
    that of the training over all starts, as its speed is. ``share`` was added to the environment
    of the commands, which may leave them a part of the machine; of its GPUs so many were used.
    A training that another command did may have had another machine, so that is not known.

    Raises:
        UserError: if the log holds no training.
    """
    path = folder / TRAIN_LOG
    log = read_log(path) if path.is_file() else {"updates": None}
    if log["updates"] is None:
        raise UserError(f"{path}: no training in it; delete {folder} and run again")
    best = best_validation(run, log["validation"])
    cost = read(folder / COST)
    if cost is not None:
        processor = seconds["processor"] + cost["processor_seconds"]
        seconds = {"train": cost["seconds"], **seconds, "processor": processor}
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
        "processor_seconds_per_update": cost
        and round(cost["processor_seconds"] / cost["updates"], 6),
        "valid_perplexity": best and best["ppl"],
        "scores": scores,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "commands": commands,
        "hardware": cost and (cost.get("hardware") or hardware(share, gpus)),
        "versions": versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def valid_nll(run: Run, folder: Path) -> float | None:
    """Return the validation loss of the best checkpoint, bits a token; None of a classifier."""
    best = best_validation(run, read_log(folder / TRAIN_LOG)["validation"])
    # With label smoothing the loss is another thing.
    return best and best.get("nll_loss", best["loss"])


def best_validation(run: Run, validation: list[dict]) -> dict | None:
    """Return the validation of a language or translation model that chose the best checkpoint.

    One that is no number chose none (``fairseq_fixes/best_checkpoints.py``). Of several alike it is
    the last: each of them replaces the checkpoint, by a score rounded as the log has it.
    """
    metric = lookup(run.composed, "checkpoint.best_checkpoint_metric") or "loss"
    choose = max if lookup(run.composed, "checkpoint.maximize_best_checkpoint_metric") else min
    scored = [entry for entry in validation if metric in entry and "ppl" in entry]
    scored = [entry for entry in scored if math.isfinite(entry[metric])]
    return choose(reversed(scored), key=lambda entry: entry[metric]) if scored else None


def note_cost(folder: Path, processor: float, seconds: float, since: int, machine: dict) -> None:
    """Add a start of a training: processor time, duration, and the updates it made.

    Those are read off its log behind the ``since`` bytes that the starts before it had written.
    The machine is that of the last start; what comes after the training may run on another.
    """
    log = folder / TRAIN_LOG
    updates = read_log(log, since)["updates_of_last_start"] if log.is_file() else 0
    if not updates:  # an earlier start had finished it, or this one failed before the first
        return
    start = {"processor_seconds": processor, "seconds": seconds, "updates": updates}
    before = read(folder / COST) or {}
    total = {k: round(v + before.get(k, 0), 2) for k, v in start.items()}
    write_json(folder / COST, total | {"hardware": machine})


def had_to_share(result: Mapping) -> bool:
    """Tell whether a training on the CPU waited for other programs, so that its speed says little.

    A program that has a core to itself uses nearly as much processor time as goes by on the
    clock; under 90 % something else ran, or the training was stopped for a while. With several
    threads a smaller share of other work goes unnoticed, and nothing is known of a training that
    another command did.
    """
    seconds = dict(result["seconds"])
    used = seconds.pop("processor", None)
    if used is None or "train" not in seconds or result["hardware"]["gpus"]:
        return False
    return used < 0.9 * sum(seconds.values())


def code_of(result: Mapping) -> str:
    """Name the version of this package that made a result: its commit, if that is known."""
    made = result["versions"]
    return re.sub(r"([0-9a-f]{7})[0-9a-f]{33}", r"\1", made.get("git_commit", made["diverse_mha"]))


def machine_of(result: Mapping) -> str:
    """Name the hardware that a result was measured on."""
    there = result["hardware"]
    if there is None:
        return "one that is not known"
    counted = [f"{name} {there[name]}" for name in ("cores", "threads") if there[name] is not None]
    return ", ".join([there["processor"], *counted, *there["gpus"]])


def hardware(share: Mapping[str, str], used: int) -> dict:
    """Describe the machine: processor, cores at hand, threads asked for, GPUs used of a share."""
    names = visible_gpus()
    mine = split_list(share.get(GPUS, ",".join(names)))[:used]
    gpus = [torch.cuda.get_device_name(n) for n, name in enumerate(names) if name in mine]
    threads = share.get(THREADS, os.environ.get(THREADS))
    return {"processor": processor(), "cores": cores(), "threads": threads, "gpus": gpus}


def visible_gpus() -> list[str]:
    """Name the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    count = torch.cuda.device_count()
    named = os.environ.get(GPUS)
    return list(map(str, range(count))) if named is None else split_list(named)[:count]
