"""What fairseq's log of a training says: speed, parameters, validation."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from diverse_mha.common.errors import UserError
from diverse_mha.fairseq_fixes.time_left import NOTHING_LEFT

TRAIN_LOG = "train.log"  # what a recipe leaves beside its checkpoints
_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")
_FROM_SCRATCH = "No existing checkpoint found"
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_OUT_OF_TIME = "Stopping training due to cumulative_training_time: "


def read_log(path: Path) -> dict:
    """Read a log written with ``common.log_format=json``, of one or several starts.

    Returns:
        ``parameters`` (trained and shared ones once), ``steps_per_second`` (median over the
        intervals of the log, without the first of each start, which holds warming up),
        ``updates`` (the last that was reported) and ``validation`` (see :func:`validations`). What
        the log does not say is None.
    """
    parameters, speeds, updates, first = None, [], None, True
    lines = path.read_bytes().decode(errors="replace").splitlines()
    for line in lines:
        if match := _PARAMETERS.search(line):  # said once a start
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


def validations(lines: Iterable[str], subset: str = "valid") -> list[dict]:
    """Find the validations in a log of fairseq-train, in its json or its simple format.

    A log may hold several attempts. Where a later one starts again from fewer updates, what those
    before it had beyond these is dropped: every number of updates has one validation at most.

    Returns:
        In their order what they report, numbers as numbers: ``epoch``, ``num_updates``, ``loss``,
        ``ppl`` if there is one, and what else the criterion logs, without the name of the set.
    """
    found: list[dict] = []
    for line in lines:
        if _FROM_SCRATCH in line:
            found = []
        elif match := _LOADED.search(line):
            found = [entry for entry in found if entry["num_updates"] <= int(match[1])]
        entry = _of_json(line, subset) or _of_simple(line, subset)
        if not {"epoch", "num_updates", "loss"} <= entry.keys():
            continue
        for name in ("epoch", "num_updates", "loss", "ppl"):
            if not isinstance(entry.get(name, 0.0), float):
                raise UserError(
                    f"a validation cannot be read ({name} is {entry[name]!r}); give a log as "
                    "fairseq-train wrote it"
                )
        while found and found[-1]["num_updates"] >= entry["num_updates"]:
            found.pop()
        found.append(entry)
    return found


def _of_json(line: str, subset: str) -> dict:
    """Read ``{"epoch": 1, "valid_loss": "5.1", "valid_ppl": ...}``, whatever stands before it."""
    if f'"{subset}_num_updates"' not in line:
        return {}
    entry, prefix = _json_entry(line), f"{subset}_"
    own = {k.removeprefix(prefix): v for k, v in entry.items() if k.startswith(prefix)}
    return {"epoch": entry.get("epoch"), **own}


def _of_simple(line: str, subset: str) -> dict:
    """Read ``epoch 001 | valid on 'valid' subset | loss 5.1 | ... | num_updates 60``."""
    # In older versions a bar stands first.
    fields = [field.strip() for field in line.removeprefix("| ").split(" | ")]
    if f"valid on '{subset}' subset" not in fields:
        return {}
    pairs = [field.rsplit(" ", 1) for field in fields if " " in field]
    return {name: _number(value) for name, value in pairs}


def finished(path: Path) -> bool:
    """Tell whether the last start that a log holds came to its end, and not to ``stop_time_hours``.

    Such a training need not be started again, which would load its model, on a GPU if it has one.
    """
    if not path.is_file():
        return False
    start = _PARAMETERS.split(path.read_text(encoding="utf-8", errors="replace"))[-1]
    last = (start.splitlines() or [""])[-1]
    return NOTHING_LEFT in last or (
        last.startswith("done training in ") and _OUT_OF_TIME not in start
    )


def _json_entry(line: str) -> dict:
    """Read what a line reports in the JSON format, numbers as numbers; nothing if it does not."""
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
