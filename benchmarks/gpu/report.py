"""All findings on one page of Markdown."""

from collections import defaultdict

from benchmarks.gpu.plan import JOBS
from diverse_mha.common.tables import markdown_table

ENDED, CUT = "ended", "out of time"
KEYS = ("job", "what", "of")  # of every finding; the others are cells


def format_report(rows: list[dict]) -> str:
    """Lay out whatever findings there are: the jobs, what failed, then a table a measurement."""
    rows = list({(row["job"], row["what"], row["of"]): row for row in rows}.values())  # the latest
    last = {row["job"]: row for row in rows if row["what"] in (ENDED, CUT)}
    begun, lines = {row["job"] for row in rows}, []
    for name, (text, *_) in JOBS.items():
        row = last.get(name, {"what": "interrupted" if name in begun else "not begun"})
        state = f"exit code {row['code']}" if row.get("code") else row["what"]
        lines.append((name, text, state, _cell(row.get("seconds", ""))))
    blocks = ["# Check of a GPU", markdown_table(("job", "shows", "state", "s"), lines, names=3)]
    bad = faults(rows)
    blocks += ["## Failed", "\n".join(f"- {line}" for line in bad)] if bad else []
    for name, (text, *_) in JOBS.items():
        tables = defaultdict(list)
        for row in rows:
            if row["job"] == name and row["what"] not in (ENDED, CUT):
                tables[row["what"]].append(row)
        blocks += [f"## {text[0].upper()}{text[1:]}"] if tables else []
        for what, of in tables.items():
            of = _by_function(of) if what == "test" else of
            columns = list(dict.fromkeys(key for row in of for key in row if key not in KEYS))
            lines = [(row["of"], *(_cell(row.get(c, "")) for c in columns)) for row in of]
            blocks.append(f"{what}:\n\n{markdown_table(('', *columns), lines)}")
    return "\n\n".join(block.strip() for block in blocks) + "\n"


def faults(rows: list[dict]) -> list[str]:
    """Say what failed, a line each; what had no time has not failed."""
    lines = []
    for row in rows:
        bad = row.get("outcome") == "failed" or row.get("finite") is False or row.get("code")
        if bad or "error" in row:
            why = row.get("error") or row.get("why") or row.get("said") or "not finite"
            lines.append(f"{row['job']}, {row['what']} {row['of']}: {' '.join(why.split())[-300:]}")
    return lines


def _cell(value) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(of)}" for key, of in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("\n", " ")


def _by_function(rows: list[dict]) -> list[dict]:
    """A row a test function: its cases, and the largest of what they measured."""
    found = {}
    for row in rows:
        name = row["of"].partition("[")[0]
        sums = found.setdefault(name, {"of": name, "passed": 0, "skipped": 0, "failed": 0})
        sums[row["outcome"]] += 1
        for key, value in row["measured"].items():
            sums[f"largest {key}"] = max(sums.get(f"largest {key}", 0.0), float(value))
    return list(found.values())
