"""Modules import only from lower folders, and importing the package is fast."""

import ast
import graphlib
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diverse_mha.common import on_import

PACKAGE = Path(__file__).parents[1] / "diverse_mha"

#: Level of each folder and top-level module. Modules import only from lower levels and from
#: their own folder.
LEVELS = {
    "common": 0,
    "attention": 1,
    "fairseq_fixes": 1,
    "corpora": 1,
    "measures": 2,
    "methods": 2,
    "criterions": 3,
    "hub": 3,
    "models": 3,
    "optim": 3,
    "tasks": 3,
    "__init__": 4,
    "recipes": 5,
    "evaluation": 6,
    "export": 7,
    "analysis": 8,
    "doctor": 9,
    "options": 9,
    "training": 9,
    "cli": 10,
}


def name_of(path: Path) -> str:
    """Return the module name of a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, without those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from executed(child)


def imports(path: Path) -> Iterator[str]:
    """Yield the modules of this package that a file imports, at its top or in functions."""
    package = path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]
    for node in executed(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in MODULES or base in MODULES and alias.name != "__version__":
                    yield inner if inner in MODULES else base


def folder_of(module: str) -> str:
    """Return the folder of a module, or the name of a top-level module."""
    return module.split(".")[1] if "." in module else "__init__"


def test_the_package_has_only_the_listed_folders():
    top = [p for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()]
    assert {path.stem for path in top} == set(LEVELS)
    assert sum(path.is_file() for path in top) <= 4 and sum(path.is_dir() for path in top) <= 16


def test_modules_import_only_from_lower_folders():
    for module, path in MODULES.items():
        folder = folder_of(module)
        for other in map(folder_of, imports(path)):
            assert other == folder or LEVELS[other] < LEVELS[folder], f"{path} imports {other}"
    assert len(MODULES) > 120


def test_there_is_no_import_cycle():
    graph = {module: set(imports(path)) - {module} for module, path in MODULES.items()}
    assert sum(map(len, graph.values())) > 400
    tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError


def test_a_symlinked_package_has_both_paths(tmp_path):
    """Fairseq resolves links in --user-dir; the package's path must contain the result."""
    link = tmp_path / "linked"
    link.symlink_to(PACKAGE.parent)
    code = "import diverse_mha as d; print(*d.__path__, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(link)},
    )
    places = [str(link / PACKAGE.name), str(PACKAGE.resolve())]
    assert done.stdout.splitlines() == places, done.stderr


def test_importing_loads_nothing_slow_and_sets_no_hook_in_any_program():
    program = (
        "import sys; hook, before = sys.excepthook, {{*sys.modules}}; sys.argv[0] = {name!r}; "
        "import diverse_mha; loaded = {{n.partition('.')[0] for n in {{*sys.modules}} - before}}; "
        "assert sys.excepthook is hook; "
        "assert loaded - {{'diverse_mha'}} <= sys.stdlib_module_names, loaded"
    )
    for name in ("fairseq-train", "my-script"):
        subprocess.run([sys.executable, "-c", program.format(name=name)], check=True)


def test_find_spec_runs_no_callback_of_after_import(tmp_path, monkeypatch):
    (tmp_path / "awaited_package.py").write_text("ready = True")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    called = []
    on_import.after_import("awaited_package", lambda: called.append(1))
    assert importlib.util.find_spec("awaited_package") and not called
    importlib.import_module("awaited_package")
    assert called == [1]
    on_import.after_import("awaited_package", lambda: called.append(2))
    assert called == [1, 2]


def test_a_callback_waits_for_modules_of_its_package(tmp_path, monkeypatch):
    """Otherwise it would import modules that are incomplete."""
    package = tmp_path / "waiting"
    files = {
        "__init__": "from diverse_mha.common.on_import import after_import\n"
        "def then():\n    from waiting import outer\n    calls.append(outer.complete)\n"
        "calls = []\nafter_import('awaited_package', then)",
        "outer": "import waiting.inner, waiting\nassert not waiting.calls\ncomplete = True",
        "inner": "import awaited_package",
    }
    package.mkdir()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    (tmp_path / "awaited_package.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in ("waiting", "waiting.outer", "waiting.inner", "awaited_package"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.import_module("waiting.outer")
    assert sys.modules["waiting"].calls == [True]
    for name in ("waiting", "waiting.outer", "waiting.inner", "awaited_package"):
        del sys.modules[name]


@pytest.mark.integration
@pytest.mark.parametrize("module", ["evaluation.models", "models.config", "fairseq_fixes.log"])
def test_a_module_that_imports_fairseq_first_registers_the_package(module):
    code = (
        f"import diverse_mha.{module}, fairseq.tasks, fairseq.criterions, fairseq.models; "
        "assert 'exact_translation' in fairseq.tasks.TASK_REGISTRY; "
        "assert 'transformer_disagree' in fairseq.models.MODEL_REGISTRY; "
        "assert 'cross_entropy_with_diversity' in fairseq.criterions.CRITERION_REGISTRY"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "before", ["", "logging.basicConfig(level=logging.INFO, stream=sys.stdout);"]
)
def test_the_programs_root_logger_is_unchanged(before):
    program = (
        f"import logging, sys, diverse_mha; {before} root = logging.getLogger(); "
        "was = root.level, root.handlers[:]; import fairseq.models; "
        "assert (root.level, root.handlers) == was, root.handlers"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


@pytest.mark.integration
def test_importing_after_fairseq_registers_the_models():
    program = (
        "import diverse_mha.methods, fairseq.models as m; "
        "assert 'transformer_coda' in m.ARCH_MODEL_REGISTRY"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_every_fix_states_what_breaks_without_it_and_in_which_version():
    helpers = {"__init__", "install", "patch"}
    table = ast.get_docstring(ast.parse((PACKAGE / "fairseq_fixes/__init__.py").read_text()))
    files = {path.stem: path for path in (PACKAGE / "fairseq_fixes").glob("*.py")}
    assert helpers <= set(files) and len(files) > 9
    for name in set(files) - helpers:
        docstring = ast.get_docstring(ast.parse(files[name].read_text()))
        assert f"``{name}``" in table or name == "checkpoint_options", name
        assert re.search(r"fairseq-fixed\s0\.12\.3\.1", docstring), name
