"""Shell scripts work with spaces and leading dashes in paths and arguments, and with CDPATH."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from diverse_mha.common.files import ROOT
from tests import warm

# LAUNCHERS pass their arguments to Python. These other scripts are tested separately.
ALONE = "env.sh setup.sh quickstart.sh lint.sh audit.sh check-gpu.sh site.sh".split()
LAUNCHERS = sorted(
    f"scripts/{path.name}" for path in (ROOT / "scripts").glob("*.sh") if path.name not in ALONE
)
PREPARATIONS = sorted(path.name for path in (ROOT / "data-prep").glob("prepare-*.sh"))
WORDS = ["a b", "-c d", "", "*", "$HOME", "--out=-e f"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the scripts in a folder with an unusual name, and a stand-in for Python."""
    folder = tmp_path_factory.mktemp("shell") / "a b" / "-c d"
    for name in ("scripts", "data-prep", ".ci"):
        shutil.copytree(ROOT / name, folder / name)
    python = folder / "-p y"
    python.write_text(
        f"#!{shutil.which('bash')}\n"
        '[[ $1 == -c ]] && exit 0\nprintf "%s\\n" "$PYTHONPATH"\nprintf "<%s>\\n" "$@"\n'
    )
    python.chmod(0o755)
    return folder


def run(script, *words, cwd, python, **environment):
    environment = {"PATH": os.environ["PATH"], "DIVERSE_MHA_PYTHON": str(python)} | environment
    return subprocess.run(
        ["bash", "--", str(script), *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_all_scripts_are_found():
    assert len(LAUNCHERS) >= 8 and len(PREPARATIONS) == 18


@pytest.mark.parametrize("script", LAUNCHERS)
def test_launchers_pass_arguments_and_folders_unchanged(script, clone):
    cases = [
        (clone / script, "/", clone / "-p y", {}),
        (Path("-c d", script), clone.parent, Path("-c d/-p y"), {}),
        (Path("-c d", script), clone.parent, clone / "-p y", {"CDPATH": ".:/tmp"}),
    ]
    for path, cwd, python, environment in cases:
        done = run(path, *WORDS, cwd=cwd, python=python, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert lines[0] == str(clone)
        assert lines[-len(WORDS) :] == [f"<{word}>" for word in WORDS]


@pytest.mark.integration
def test_a_copy_in_the_current_folder_is_not_imported(tmp_path):
    other = tmp_path / "diverse_mha"
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('the other copy')\n")
    python = warm.server()
    for script in ("train.sh", "reproduce.sh"):
        path = ROOT / "scripts" / script
        done = run(path, "--help", cwd=tmp_path, python=python.python, **python.variables)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("script", ["setup.sh", "quickstart.sh", "audit.sh", "test.sh"])
def test_help_works_in_a_folder_with_an_unusual_name(script, clone):
    done = run(
        Path("-c d/scripts", script), "--help", cwd=clone.parent, python="/nowhere", CDPATH="."
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: bash scripts/")


@pytest.mark.parametrize("name", PREPARATIONS)
def test_help_has_an_example_and_wrong_options_are_reported(name, clone):
    """Help and errors need no Python, so they work before set-up."""
    script = Path("-c d/data-prep", name)
    done = run(script, "--help", cwd=clone.parent, python="/nowhere", CDPATH=".")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: bash data-prep/{name} [options]\n\nPrepares ")
    assert f"    bash data-prep/{name}" in done.stdout
    assert f"--out FOLDER\n        folder for all output (data/{name[8:-3]})" in done.stdout
    for word in WORDS[:-1]:
        done = run(script, word, cwd=clone.parent, python="/nowhere")
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr == (
            f"error: {word}: there is no such option; see data-prep/{name} --help\n"
        )
