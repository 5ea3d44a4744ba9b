"""An installed wheel, without a clone: its commands, and a training with a named recipe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.docs.clone import Clone
from tests.integration.conftest import data  # noqa: F401

pytestmark = pytest.mark.integration


def run(*words, cwd, site=None, check=True) -> subprocess.CompletedProcess:
    """Run a command that can import this package only from ``site``."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1"}
    environment |= warm.server().variables
    environment.pop("PYTHONPATH", None)
    if site is not None:
        environment["PYTHONPATH"] = str(site)
    words = [str(word) for word in words]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    if check:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Folder where a wheel of the working tree is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = Clone.make(folder / "clone", folder).folder
    # A file of an earlier build must not get into the wheel.
    (clone / "build/lib/diverse_mha").mkdir(parents=True)
    (clone / "build/lib/diverse_mha/old.py").touch()
    pip = [sys.executable, "-m", "pip", "-q"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", folder, "."]
    run(*pip, *build, cwd=clone)
    (wheel,) = folder.glob("diverse_mha-*.whl")
    run(*pip, "install", "--no-deps", "--target", folder / "site", wheel, cwd=folder)
    return folder / "site"


@pytest.fixture
def command(site, tmp_path):
    """Function that runs the installed ``diverse-mha`` in an empty folder."""
    module = [warm.server().python, "-m", "diverse_mha.cli"]
    return lambda *words, **kwargs: run(*module, *words, cwd=tmp_path, site=site, **kwargs)


def test_commands_run_or_report_that_they_need_a_clone(command, site):
    script = run(sys.executable, site / "bin/diverse-mha", "path", cwd=site, site=site)
    assert script.stdout.strip() == command("path").stdout.strip() == str(site / "diverse_mha")
    assert not (site / "diverse_mha/old.py").exists()
    assert (site / "diverse_mha/py.typed").exists()  # a user's type checker reads the annotations
    assert "All checks passed." in command("doctor").stdout
    for words in (("reproduce", "--list"), ("benchmark", "--help")):
        done = command(*words, check=False)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert "is not a clone of diverse-mha" in done.stderr


def test_a_recipe_trains_by_its_name(command, data, tmp_path):  # noqa: F811
    settings = [f"task.data={data}", "task.source_lang=src", "task.target_lang=tgt"]
    settings += ["optimization.max_update=2", "++common.cpu=true", "method=coda"]
    settings += ["checkpoint.save_dir=run"]
    command("train", "--config", "demo", *settings)
    assert (tmp_path / "run/checkpoint_last.pt").is_file()
    assert "cascade" in (tmp_path / "run/train.log").read_text()
    done = command("train", "--config", "nosuch", check=False)
    assert done.returncode == 2 and "configs/ has demo, demo_lm" in done.stderr
