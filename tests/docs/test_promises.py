"""Every promise of tests/promises.md names a test that exists."""

import ast
import re

from tests.docs.blocks import ROOT

ROWS = re.findall(
    r"^\| (.+) \| `(tests/\S+\.py)::(test_\w+)` \|$", (ROOT / "tests/promises.md").read_text(), re.M
)


def test_every_row_names_a_test_that_exists():
    functions = {
        file: {
            node.name
            for node in ast.parse((ROOT / file).read_text()).body
            if isinstance(node, ast.FunctionDef)
        }
        for file in {file for _, file, _ in ROWS if (ROOT / file).is_file()}
    }
    missing = [f"{file}::{name}" for _, file, name in ROWS if name not in functions.get(file, ())]
    assert not missing


def test_every_row_of_the_tables_is_parsed():
    lines = (ROOT / "tests/promises.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("|") and "---" not in line]
    assert len(ROWS) == len([line for line in rows if not line.startswith("| promise |")]) > 80
