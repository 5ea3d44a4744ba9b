"""Imports point one way, and the tensor functions need no fairseq."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "diverse_mha"

# Level of each part; a part imports from lower levels and its own only.
LEVELS = {
    "errors": 0,
    "files": 0,
    "latex": 0,
    "first_order": -1,
    "old_checkpoints": 0,
    "literals": 0,
    "starting_point": 1,
    "versions": 1,
    "checkpoint_types": 1,
    "checkpoint_options": 2,
    "checkpoint_guard": 3,
    "compat": 4,
    "regularizers": 0,
    "aggregation": 0,
    "arguments": 1,
    "data_files": 1,
    "places": 1,
    "layout": 1,
    "bleu": 0,
    "evaluate": 4,
    "deploy": 5,
    "export": 6,
    "translate": 6,
    "comparison": 4,
    "logic": 2,
    "corpora": 3,
    "attention": 1,
    "criterions": 2,
    "models": 2,
    "tasks": 2,
    "analysis": 4,
    "benchmark": 5,
    "averaging": 2,
    "launch": 2,
    "evaluate_lm": 4,
    "reproduce": 6,
}


def imported_parts(path: Path) -> set[str]:
    """Parts of the package that a file imports at its top level."""
    parts = set()
    for node in ast.parse(path.read_text()).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            if node.module == "diverse_mha":
                names = [f"diverse_mha.{alias.name}" for alias in node.names]
        parts |= {n.split(".")[1] for n in names if n.startswith("diverse_mha.")}
    return parts


def test_imports_point_one_way():
    checked = 0
    for part, level in LEVELS.items():
        files = sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / f"{part}.py"]
        for path in files:
            for other in imported_parts(path) - {part, "__version__"}:
                assert LEVELS[other] < level, f"{path} imports {other}"
            checked += 1
    assert checked > 30


@pytest.mark.integration
def test_tensor_functions_work_where_fairseq_does_not():
    code = (
        "import sys; sys.modules['fairseq'] = None\n"
        "import torch\n"
        "from diverse_mha.regularizers import output_disagreement\n"
        "print(round(float(output_disagreement(torch.ones(1, 2, 3, 4))), 3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.stdout.strip() == "-1.0", done.stderr
