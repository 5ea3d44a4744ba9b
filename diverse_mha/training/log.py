"""Reads fairseq's training log: speed, parameters, validations."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from diverse_mha.fairseq_fixes.log import NOTHING_LEFT

TRAIN_LOG = "train.log"  # what a recipe leaves beside its checkpoints
_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")
_FROM_SCRATCH = "No existing checkpoint found"
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_OUT_OF_TIME = "Stopping training due to cumulative_training_time: "


def read_log(path: Path) -> dict:
    """Read a log written with ``common.log_format=json``; it may hold several starts.

    Returns:
        ``parameters`` (trained ones, shared ones once), ``steps_per_second`` (median over the
        logged intervals, without the first of each start), ``updates`` (the last reported) and
        ``validation`` (see :func:`validations`). What the log does not have is None.
    """
    parameters, speeds, updates, first = None, [], None, True
    lines = path.read_bytes().decode(errors="replace").splitlines()
    for line in lines:
        if match := _PARAMETERS.search(line):  # once a start
            parameters = int(match[1].replace(",", ""))
            first = True
        entry = _json_entry(line)
        if "ups" in entry:  # an interval of training
            if not first and entry["ups"]:
                speeds.append(entry["ups"])
            first = False
            updates = entry.get("num_updates", updates)
        updates = entry.get("train_num_updates", updates)
    return {
        "parameters": parameters,
        "steps_per_second": round(median(speeds), 4) if speeds else None,
        "updates": int(updates) if updates is not None else None,
        "validation": validations(lines),
    }


def validations(lines: Iterable[str]) -> list[dict]:
    """Return the validations of a log in order, each number of updates once.

    Where a later start repeats updates, it replaces what earlier starts reported from there on.

    Returns:
        Numbers by name: ``epoch``, ``num_updates``, ``loss``, ``ppl`` and what else the criterion
        logs, without the prefix ``valid_``.
    """
    found: list[dict] = []
    for line in lines:
        if _FROM_SCRATCH in line:
            found = []
        elif match := _LOADED.search(line):
            found = [entry for entry in found if entry["num_updates"] <= int(match[1])]
        if '"valid_num_updates"' not in line:
            continue
        logged = _json_entry(line)
        entry = {k.removeprefix("valid_"): v for k, v in logged.items() if k.startswith("valid_")}
        if not {"num_updates", "loss"} <= entry.keys():
            continue
        while found and found[-1]["num_updates"] >= entry["num_updates"]:
            found.pop()
        found.append({"epoch": logged.get("epoch"), **entry})
    return found


def finished(path: Path) -> bool:
    """Say whether the last start in a log ran to its end; False if ``stop_time_hours`` ended it."""
    if not path.is_file():
        return False
    start = _PARAMETERS.split(path.read_text(encoding="utf-8", errors="replace"))[-1]
    last = (start.splitlines() or [""])[-1]
    return NOTHING_LEFT in last or (
        last.startswith("done training in ") and _OUT_OF_TIME not in start
    )


def _json_entry(line: str) -> dict:
    """Read the JSON in a line, numbers as numbers; empty if there is none."""
    try:
        entry = json.loads(line[line.index("{") :])
    except ValueError:
        return {}
    return {key: _number(value) for key, value in entry.items()}


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
