"""The report of ``scripts/check-gpu.sh`` as Markdown."""

import statistics
from collections import defaultdict

from benchmarks.report import MIB, ratio, where
from diverse_mha.common.tables import markdown_table

TRAINING = (
    *("shape", "precision", "tokens", "variant", "ratio to stock (95 %)", "tokens/s"),
    "peak memory, MiB",
)
SEARCH = ("shape", "precision", "variant", "ratio to stock (95 %)", "sentences/s")

UNFINISHED = {
    "out of time": "Stopped before the end, for time",
    "too large": "Does not fit into the memory",
}


def format_report(state: dict, parts: list[tuple[str, str, list[str]]]) -> str:
    """Lay out what ``report.json`` holds as a Markdown section, with a heading of level two.

    ``parts`` has the name, the title and the names of the jobs of every part.
    """
    machine, found = state["machine"], state["jobs"]
    of: dict[str, list[str]] = {}
    for key, row in found.items():
        of.setdefault(_listed(row["versions"]), []).append(key)
    own = next(iter(of), _listed(machine["versions"])) if len(of) < 2 else "of several versions"
    rehearsal = "" if machine["gpu"] else " A rehearsal without a GPU: its figures mean nothing."
    blocks = [
        f"## What {where(machine)} does",
        f"By `scripts/check-gpu.sh` in {state['minutes']:.1f} minutes; {own}.{rehearsal}",
    ]
    if len(of) > 1:
        blocks += ["\n".join(f"- {versions}: {'; '.join(keys)}" for versions, keys in of.items())]
    for number, (part, title, names) in enumerate(parts, 1):
        rows = {name: found[f"{part}: {name}"] for name in names if f"{part}: {name}" in found}
        blocks += [f"### {number}. {title}", *(_section(part, rows) or ["Nothing yet."])]
        left = {"Not tried yet": [name for name in names if name not in rows]}
        for status, text in UNFINISHED.items():
            left[text] = [name for name, row in rows.items() if row["status"] == status]
        blocks += [f"{text}: {'; '.join(names)}." for text, names in left.items() if names]
        for name, row in rows.items():
            if row.get("fallbacks"):
                blocks += [f"**{name} did without**:", _quoted("\n".join(row["fallbacks"]), 4)]
            if row["status"] == "no data":
                blocks += [f"**{name} not tried: no data**:", _quoted(row["said"], 1)]
            if row["status"] == "failed":
                blocks += [f"**{name} failed**:", _quoted(row["said"], 12)]
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in versions.items())


def _section(part: str, rows: dict[str, dict]) -> list[str]:
    results = {name: row["result"] for name, row in rows.items() if row["result"]}
    blocks = (_speed if part == "speed" else _tests)(results) if results else []
    for name, row in rows.items():
        if name == "doctor" and row["status"] == "done":
            blocks.insert(0, f"doctor: {row['said'].strip().splitlines()[-1]}")
        elif part == "study" and row["status"] in ("done", "out of time"):  # a line a finished run
            ended = [line for line in row["said"].splitlines() if line.startswith("[")]
            blocks.append(_quoted("\n".join(ended), 40))
        elif part == "table":
            blocks.append(_quoted(row["said"], 40))
    return blocks


def _quoted(text: str, count: int) -> str:
    return "\n".join(["```", *text.replace("```", "").strip().splitlines()[-count:], "```"])


def _tests(results: dict[str, dict]) -> list[str]:
    """One row for every test function: how many cases, and the largest of what they measured."""
    lines, cases, faults = [], defaultdict(list), []
    for test in (test for result in results.values() for test in result["tests"]):
        cases[test["name"].partition("[")[0]].append(test)
        if test["outcome"] not in ("passed", "skipped"):
            faults.append(f"- {test['name'].removeprefix('test_')}: {test['why']}")
    for name, tests in cases.items():
        passed = sum(test["outcome"] == "passed" for test in tests)
        text = name.removeprefix("test_").replace("_", " ")
        lines.append((text, str(len(tests)), str(passed), _largest(tests)))
    table = markdown_table(("check", "cases", "passed", "measured, at most"), lines)
    return [table, *(["Failed:", "\n".join(faults)] if faults else [])]


def _largest(tests: list[dict]) -> str:
    largest: dict[tuple[str, str], float] = {}
    for test in tests:
        # The tolerance is one of the precision, so the largest is too.
        words = test["name"].rpartition("[")[2].rstrip("]").split("-")
        precision = next((w for w in words if w.startswith(("float", "bfloat"))), "")
        for name, value in test["measured"].items():
            key = name, precision
            largest[key] = max(largest.get(key, 0.0), float(value))
    return ", ".join(
        f"{name}{' ' + precision if precision else ''} {value:.2g}"
        for (name, precision), value in sorted(largest.items())
    )


def _speed(results: dict[str, dict]) -> list[str]:
    lines, training, search = [], [], []
    for result in results.values():
        options = result["options"]
        model = options["shape"], options["precision"]
        for name, row in result["variants"].items():
            if "sentences_per_second" in row:
                search.append((*model, name, ratio(row), f"{row['sentences_per_second']:.3g}"))
                continue
            tokens = statistics.mean(batch["target_tokens"] for batch in result["batches"])
            speed = tokens / statistics.mean(row["seconds"])
            training.append(
                (
                    *model,
                    str(options["batch_tokens"]),
                    name,
                    ratio(row),
                    f"{speed:.3g}",
                    f"{row['peak_memory_bytes'] / MIB:.0f}",
                )
            )
    if training:
        lines.append(markdown_table(TRAINING, training, names=4))
    if search:
        lines.append(markdown_table(SEARCH, search, names=3))
    return lines
