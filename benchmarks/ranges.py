"""Speeds as ranges over several runs: one run on one machine is luck."""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import where
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import write_json

#: Rounds of a run that counts.
LEAST_ROUNDS = 20
#: Options that runs must share to stand in one table.
SHARED = ("shape", "batch_tokens", "mean_length", "precision", "compile", "device", "threads")


def add(folder: Path, result: dict) -> list[dict]:
    """Keep a result of ``measure`` in a folder of runs; return all of the same options, by time."""
    now = datetime.datetime.now(datetime.UTC)
    name = f"{result['options']['shape']}-{now:%Y%m%d-%H%M%S-%f}.json"
    write_json(folder / name, result | {"measured": now.isoformat()})
    return [run for run in read(folder) if _shared(run) == _shared(result)]


def read(folder: Path) -> list[dict]:
    """Return the runs that a folder has, by time.

    Raises:
        UserError: if a file there is no run.
    """
    runs = []
    for path in sorted(folder.glob("*.json")):
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            _ = _shared(run), run["measured"], run["variants"], run["machine"]
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(f"{path}: no run of the benchmark; take it out ({error})") from None
        runs.append(run)
    return sorted(runs, key=lambda run: run["measured"])


def format_ranges(runs: Sequence[dict]) -> str:
    """Lay out the ranges of several runs of the same options as Markdown.

    The range of a variant reaches from the lowest lower end of its runs' 95 % intervals to the
    highest upper end: what a reader may meet on a machine and a day like these.
    """
    names = list(dict.fromkeys(name for run in runs for name in run["variants"]))
    days = {run["measured"][:10] for run in runs}
    machines = {(where(run["machine"]), run["machine"]["cores"]) for run in runs}
    lines = [
        f"{_count(runs, 'run')} of at least {LEAST_ROUNDS} rounds on {_count(days, 'day')} and "
        f"{_count(machines, 'machine')} by name. Range: from the lowest to the highest end of the "
        "runs' 95 % intervals of stock's time / own time; above 1 = faster than stock.",
        "",
        "| variant | range | medians of the runs | rounds |",
        "| --- | ---: | --- | ---: |",
    ]
    for name in names:
        found = [(run["variants"][name], run) for run in runs if name in run["variants"]]
        low = min(variant["ratio_low"] for variant, _ in found)
        high = max(variant["ratio_high"] for variant, _ in found)
        medians = ", ".join(f"{variant['ratio']:.3f}" for variant, _ in found)
        rounds = sum(run["options"]["rounds"] for _, run in found)
        lines.append(f"| `{name}` | {low:.2f} to {high:.2f} | {medians} | {rounds} |")
    return "\n".join(lines)


def _shared(run: dict) -> list:
    return [run["options"][option] for option in SHARED]


def _count(things: Sequence | set, name: str) -> str:
    return f"{len(things)} {name}{'s' if len(things) > 1 else ''}"
