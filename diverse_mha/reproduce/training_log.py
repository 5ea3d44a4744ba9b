"""What fairseq's log of a training says: speed, parameters, validation."""

import json
import re
from pathlib import Path
from statistics import median

_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")


def read_log(path: Path) -> dict:
    """Read a log written with ``common.log_format=json``, of one or several starts.

    Returns:
        ``parameters`` (trained and shared ones once), ``steps_per_second`` (median over the
        intervals of the log, without the first of each start, which holds warming up),
        ``updates`` (the last that was reported) and ``validation`` (a list of dictionaries in
        their order, numbers as numbers). What the log does not say is None.
    """
    parameters, speeds, validation, updates, first = None, [], {}, None, True
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("$ "):
            first = True
        if match := _PARAMETERS.search(line):
            parameters = int(match[1].replace(",", ""))
        entry = _entry(line)
        if entry is None:
            continue
        if "valid_num_updates" in entry or "valid_loss" in entry:
            validation[entry.get("valid_num_updates")] = entry
        elif "ups" in entry:  # an interval of training
            if not first and entry["ups"]:
                speeds.append(entry["ups"])
            first = False
            updates = entry.get("num_updates", updates)
        updates = entry.get("train_num_updates", updates)
    return {
        "parameters": parameters,
        "steps_per_second": round(median(speeds), 4) if speeds else None,
        "updates": int(updates) if updates is not None else None,
        "validation": list(validation.values()),
    }


def updates_of_last_start(path: Path) -> int:
    """Count the updates that the last start in a log made, from the checkpoint it went on from."""
    start = last = 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("$ "):
            start = last = 0
        elif match := _LOADED.search(line):
            start = last = int(match[1])
        elif entry := _entry(line):
            last = int(entry.get("train_num_updates", entry.get("num_updates", last)))
    return last - start


def valid_perplexity(validation: list[dict], metric: str, maximize: bool) -> float | None:
    """Return the perplexity at the validation that chose the best checkpoint."""
    scored = [e for e in validation if f"valid_{metric}" in e and "valid_ppl" in e]
    if not scored:
        return None
    choose = max if maximize else min
    return choose(scored, key=lambda e: e[f"valid_{metric}"])["valid_ppl"]


def progress(path: Path) -> int | None:
    """Return the last update that the end of a log reports."""
    with path.open("rb") as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - 4000))
        found = re.findall(rb'"(?:\w+_)?num_updates": "(\d+)"', log.read())
    return int(found[-1]) if found else None


def _entry(line: str) -> dict | None:
    start = line.find("{")
    if start < 0 or '"' not in line:
        return None
    try:
        entry = json.loads(line[start:])
    except ValueError:
        return None
    return (
        {key: _number(value) for key, value in entry.items()} if isinstance(entry, dict) else None
    )


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
