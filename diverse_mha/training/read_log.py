"""Reads speed, parameters and validations from fairseq's training log."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

TRAIN_LOG = "train.log"  # a run's log, beside its checkpoints
_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")
_FROM_SCRATCH = "No existing checkpoint found"
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")


def read_log(path: Path) -> dict:
    """Read a log written with ``common.log_format=json``; the run may have been resumed.

    Returns:
        ``parameters`` (number of the model's parameters, shared ones counted once),
        ``steps_per_second`` (median over the logged intervals, without the first after each start),
        ``updates`` (the last logged number) and ``validation`` (see :func:`validations`). Of the
        first three, a value that the log lacks is None.
    """
    parameters, speeds, updates, first = None, [], None, True
    lines = path.read_bytes().decode(errors="replace").splitlines()
    for line in lines:
        if match := _PARAMETERS.search(line):  # logged once per start
            parameters = int(match[1].replace(",", ""))
            first = True
        entry = _json_entry(line)
        if "ups" in entry:  # a training interval
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
    """Return the validations of a log in order, one for each number of updates.

    If a resumed training repeats updates, its validations replace the earlier ones from there on.

    Returns:
        For each validation, numbers by name: ``epoch``, ``num_updates``, ``loss``, ``ppl`` and
        whatever else the criterion logs, without the prefix ``valid_``.
    """
    entries: list[dict] = []
    for line in lines:
        if _FROM_SCRATCH in line:
            entries = []
        elif match := _LOADED.search(line):
            entries = [entry for entry in entries if entry["num_updates"] <= int(match[1])]
        if '"valid_num_updates"' not in line:
            continue
        logged = _json_entry(line)
        entry = {k.removeprefix("valid_"): v for k, v in logged.items() if k.startswith("valid_")}
        if not {"num_updates", "loss"} <= entry.keys():
            continue
        while entries and entries[-1]["num_updates"] >= entry["num_updates"]:
            entries.pop()
        entries.append({"epoch": logged.get("epoch"), **entry})
    return entries


def _json_entry(line: str) -> dict:
    """Return the JSON object in a line, with numeric strings as floats; {} without an object."""
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
