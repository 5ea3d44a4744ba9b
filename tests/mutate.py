"""Changes the code in one place after another, and reports which changes no test notices.

Run before a release, not in the gate, because 200 mutants take hours of a core. From the
repository's folder:

    python -m tests.mutate --files 'diverse_mha/recipes/*.py' --count 20 --out mutants.jsonl

Each mutant has one operator, comparison, number, flag or order of two arguments changed. First the
unit tests that import the file run (or its package, if none does), then those of its folder, all
tests of its folder, and ``--wider``. mutmut and cosmic-ray are not used, because they run the same
tests for every mutant, and the suite takes minutes. The same command goes on where it was stopped;
without ``--closest`` it runs the other tests for those that survived.
"""

import argparse
import ast
import collections
import copy
import functools
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


class Mutant(NamedTuple):
    """One change of a file."""

    file: str  # relative to the repository
    line: int
    before: str
    after: str
    start: int  # in bytes of the file
    end: int

    @property
    def key(self) -> str:
        """Identify the change in the file of results."""
        return f"{self.file}:{self.line}: {self.before} -> {self.after} @{self.start}"


def mutated(node: ast.AST) -> ast.AST | None:
    """Return the node with one change, or None if it is not one that is changed."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        new.ops[0] = SWAPS[type(new.ops[0])]()
    elif isinstance(new, ast.BinOp | ast.BoolOp) and type(new.op) in SWAPS:
        new.op = SWAPS[type(new.op)]()
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        new = new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        new.value += 1
    elif isinstance(new, ast.Call) and len(new.args) == 2 and not new.keywords:
        new.args.reverse()
    else:
        return None
    return new


def code_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run: neither annotations nor parts of formatted text."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                yield node
                yield from code_nodes(node)


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Return every change of a file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in code_nodes(ast.parse(source)):
        new = mutated(node)
        if new is None:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = source.encode()[start:end].decode()
        found.append(Mutant(file, node.lineno, before, f"({ast.unparse(new)})", start, end))
    return found


def tests_of(file: str, wider: list[str]) -> list[list[str]]:
    """Return arguments of pytest, those of the closest and quickest tests first."""
    path = Path(file)
    units, every = "not integration and not system and not gpu", "not system and not gpu"
    own = Path("tests", *path.parts[1:-1])
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    tests = [test for test in tests if test.parent.name != "gpu"]  # decides how Triton is loaded
    closest = [test for test in tests if imports(test, path)]
    closest = closest or [test for test in tests if imports(test, path.parent)]
    steps = [["-m", units, *(str(test.relative_to(ROOT)) for test in closest)]] if closest else []
    if (ROOT / own).is_dir():
        steps += [["-m", units, str(own)], ["-m", every, str(own)]]
    return [*steps, ["-m", every, *wider]] if wider else steps


def imports(test: Path, path: Path) -> bool:
    """Return True if a file of tests imports the module of a path."""
    *package, name = path.with_suffix("").parts
    dotted = ".".join(package)
    text = test.read_text(encoding="utf-8")
    parted = re.findall(rf"^ *from {dotted} import (\([^)]*\)|.*)", text, re.M)
    return f"{dotted}.{name}" in text or any(re.search(rf"\b{name}\b", names) for names in parted)


def failure(tree: Path, tests: list[str], seconds: float) -> str:
    """Run tests with the code in ``tree``; return why they fail, or an empty text."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        # The change may have made a loop endless, or the machine is busy.
        return f"{' '.join(tests)}: not ready after {seconds:g} s"
    if done.returncode in (0, 5):  # 5: no test was selected
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", done.stdout, re.M)
    return failed[1] if failed else " ".join(tests)


def notice(tree: Path, mutant: Mutant, steps: list[list[str]], seconds: float) -> str:
    """Return the test that notices a mutant, or an empty text."""
    path = tree / mutant.file
    original = path.read_bytes()
    for tests in steps:
        path.write_bytes(original[: mutant.start] + mutant.after.encode() + original[mutant.end :])
        try:
            found = failure(tree, tests, seconds)
        finally:
            path.write_bytes(original)
        if found:
            check(tree, tuple(tests), seconds)
            return found
    return ""


@functools.cache
def check(tree: Path, tests: tuple[str, ...], seconds: float) -> None:
    """End the program if tests fail without a change."""
    if why := failure(tree, [*tests], seconds):
        sys.exit(f"fails without a change: {why}")


def main(argv: list[str] | None = None) -> int:
    """Draw mutants, run the tests for each, and print a table by file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", required=True, help="patterns, separated by commas")
    parser.add_argument("--count", type=int, default=50, help="number of mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wider", default="", help="tests to run last, separated by commas")
    parser.add_argument("--seconds", type=float, default=600, help="limit of one run of tests")
    parser.add_argument("--closest", action="store_true", help="only the closest tests")
    parser.add_argument("--out", required=True, type=Path, help="file of results, one a line")
    args = parser.parse_args(argv)
    found = (glob.glob(p, root_dir=ROOT, recursive=True) for p in args.files.split(","))
    names = sorted({name for names in found for name in names})
    every = [m for name in names for m in mutants_of(name, (ROOT / name).read_text())]
    drawn = random.Random(args.seed).sample(every, min(args.count, len(every)))
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    rows = {row["mutant"]: row for row in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "clone"
        ignored = shutil.ignore_patterns(".venv", ".git", "data", "runs", "build", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for number, mutant in enumerate(drawn, start=1):
            steps = tests_of(mutant.file, [x for x in args.wider.split(",") if x])
            row = rows.get(mutant.key, {"mutant": mutant.key, "noticed": "", "steps": 0})
            left = steps[row["steps"] : 1 if args.closest else None]
            if left and not row["noticed"]:
                noticed = notice(tree, mutant, left, args.seconds)
                row = row | {"noticed": noticed, "steps": row["steps"] + len(left)}
                with args.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")
            rows[mutant.key] = row
            print(f"{number}/{len(drawn)} {mutant.key}: {row['noticed'] or 'SURVIVED'}", flush=True)
    counts = collections.Counter((m.file, bool(rows[m.key]["noticed"])) for m in drawn)
    for name in sorted({m.file for m in drawn}):
        print(f"{name}: {counts[name, True]} noticed, {counts[name, False]} survived")
    print(f"{len(every):,} changes are possible in {len(names)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
