"""scripts/setup.sh on machines that lack a Python, compiler or headers. Nothing is installed."""

import importlib
import importlib.metadata
import importlib.util
import itertools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diverse_mha.common.files import ROOT

CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
TOOLS = ("bash", "chmod", "cat", "cksum", "dirname", "find", "flock", "grep", "head", "mkdir", "mv")
TOOLS += ("pgrep", "rm", "touch")


class Machine:
    """A folder with a copy of the script, and a PATH with few commands."""

    def __init__(self, folder: Path):
        self.root = folder / "a clone"
        self.bin = folder / "bin"
        (self.root / "scripts").mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / "scripts" / "setup.sh", self.root / "scripts")
        for name in ("constraints.txt", "setup.py"):
            shutil.copy(ROOT / name, self.root)
        for tool in TOOLS:
            if shutil.which(tool):
                (self.bin / tool).symlink_to(shutil.which(tool))

    def command(self, name: str, script: str) -> None:
        """Add a command to the PATH."""
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)

    def python(self, version: str = "3.11.9", missing: str = "nothing") -> None:
        """Add a fake python3 to the PATH.

        ``missing``: a module that it lacks, or ``include`` for its headers.
        """
        unfit = int(not 11 <= int(version.split(".")[1]) <= 13)
        self.command(
            "python3",
            f"""case "$*" in
                -V) echo "Python {version}" ;;
                *version_info*'<='*) exit {unfit} ;;
                *_base_executable*) echo "$0" ;;
                *"%d.%d"*) echo {version.rpartition(".")[0]} ;;
                *{missing}*) [[ {missing} == include ]] && echo /nowhere/include || exit 1 ;;
                *include*) echo "{self.bin}" ;;
                "-m venv "*) exit 3 ;;
            esac""",
        )
        (self.bin / "Python.h").touch()

    def run(self, **environment) -> subprocess.CompletedProcess:
        """Run the script with only this PATH in its environment."""
        return subprocess.run(
            [shutil.which("bash"), str(self.root / "scripts" / "setup.sh")],
            env={"PATH": str(self.bin), "HOME": str(self.root)} | environment,
            capture_output=True,
            text=True,
        )


@pytest.fixture
def machine(tmp_path):
    """A machine without Python and compiler."""
    return Machine(tmp_path)


def refused(result, message):
    """Assert exit code 2 and one line with the message."""
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("version", ["3.9.18", "3.14.10"])
def test_an_unsupported_python_is_refused_if_no_other_can_be_fetched(machine, version):
    machine.python(version)
    machine.command("c++", "exit 0")
    refused(machine.run(), f"python3 is Python {version}, and fairseq runs on 3.11 to 3.13:")


@pytest.mark.parametrize("version", ["3.9.2", "3.14.10"])
def test_a_supported_python_is_found_by_its_versioned_name(machine, version):
    machine.python("3.12.1")
    (machine.bin / "python3").rename(machine.bin / "python3.12")
    machine.command("python3", f'echo "Python {version}"; exit 1')
    refused(machine.run(), "no working C++ compiler")


def test_failed_set_up_leaves_no_stamp_and_starts_again(machine):
    machine.python()
    machine.command("g++", "exit 0")
    for _ in range(2):
        result = machine.run()
        assert result.returncode == 3
        assert "[1/4] an empty environment" in result.stdout
        assert not list(machine.root.rglob("set-up-complete*"))


@pytest.mark.parametrize("made", ["folder", "link", "dangling", "file"])
def test_a_foreign_environment_is_not_changed(machine, made):
    machine.python()
    machine.command("g++", "exit 0")
    venv, own = machine.root / ".venv", machine.root / "own"
    if made == "file":
        venv.touch()
    elif made == "link":
        finished(machine)  # a link may lead to the environment of another clone
        venv.rename(own)
    elif made == "folder":
        (venv / "bin").mkdir(parents=True)
    if made in ("link", "dangling"):
        venv.symlink_to(own)
    before = sorted(machine.root.rglob("*"))
    (machine.root / "constraints.txt").write_text("# changed\n")
    refused(machine.run(), f"{venv} was not made by this script and would be replaced: move it")
    assert sorted(machine.root.rglob("*")) == before


def finished(machine, pip: str = "true"):
    """Make .venv look complete. Its python logs calls of pip and runs ``pip`` for them."""
    scripts = machine.root / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").write_text(
        f"""#!{shutil.which("bash")}
        case "$*" in
            *"-m pip "*) echo "$*" >>"{machine.root}/pip.log"; {pip} ;;
            *) echo Python 3.11.9 ;;
        esac"""
    )
    (scripts / "python").chmod(0o755)
    sums = subprocess.run(
        ["cksum", "constraints.txt", "setup.py"], cwd=machine.root, capture_output=True, text=True
    ).stdout
    compiled = [x for x in CONSTRAINTS if x.lower().startswith(("fairseq", "numpy", "cython"))]
    (machine.root / ".venv" / "fairseq-built").write_text("\n".join(["Python 3.11.9", *compiled]))
    (machine.root / ".venv" / "set-up-complete").write_text(
        f"{machine.root}\n{sums}Python 3.11.9\n"
    )


def change(machine, name: str = "constraints.txt", line: str = "# changed"):
    with open(machine.root / name, "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def outdated(machine):
    """Make .venv look complete, but constraints.txt has changed since."""
    machine.python()
    machine.command("g++", "exit 0")
    finished(machine)
    change(machine)


def test_finished_set_up_is_silent_and_needs_no_system_python(machine):
    finished(machine)
    result = machine.run(VIRTUAL_ENV="/some/other")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("changed", ["constraints.txt", "setup.py"])
def test_changed_requirements_are_installed_in_place(machine, changed):
    """Neither another Python nor a compiler is needed, as fairseq is as it was."""
    finished(machine)
    own = machine.root / ".venv/lib"
    own.touch()
    change(machine, changed)
    done = machine.run()
    assert (done.returncode, done.stderr) == (0, "")
    calls = (machine.root / "pip.log").read_text().splitlines()
    assert any("-e .[analysis,dev,docs]" in call for call in calls) and own.exists()
    assert not any(" wheel " in call for call in calls), "fairseq is not compiled again"
    assert machine.run().stdout == ""


@pytest.mark.parametrize("line", ["numpy==9.9", "fairseq-fixed==9.9"])
def test_fairseq_is_compiled_again_for_another_numpy(machine, line):
    finished(machine)
    (machine.root / "constraints.txt").write_text(
        "\n".join(x for x in CONSTRAINTS if x.split("==")[0] != line.split("==")[0])
    )
    change(machine, line=f"\n{line}")
    refused(machine.run(), "no working C++ compiler")
    machine.command("g++", "exit 0")
    (machine.bin / "Python.h").touch()
    python = machine.root / ".venv/bin/python"
    include = f'*include*) echo "{machine.bin}" ;;\n            *) echo'
    python.write_text(python.read_text().replace("*) echo Python", f"{include} Python"))
    done = machine.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert " wheel " in (machine.root / "pip.log").read_text()


def test_a_change_that_fails_says_what_failed_and_is_tried_again(machine):
    """The environment stays, but does not count as complete, also for the earlier requirements."""
    finished(machine, pip='[[ -e $HOME/online || $* != *"-e ."* ]]')
    before = (machine.root / "constraints.txt").read_text()
    change(machine)
    for text in (None, before):
        if text is not None:
            (machine.root / "constraints.txt").write_text(text)
        done = machine.run()
        assert done.returncode == 2
        assert (
            "error: pip could not install .[analysis,dev,docs], for the reason above" in done.stderr
        )
        assert f"DIVERSE_MHA_PYTHON={machine.root}/.venv/bin/python" in done.stderr
        assert (machine.root / ".venv/bin/python").exists()
    (machine.root / "online").touch()
    assert machine.run().returncode == 0
    assert machine.run().stdout == ""


@pytest.mark.parametrize("state", ["absent", "outdated"])
def test_a_set_up_killed_at_any_point_is_completed_by_the_next(tmp_path, state):
    """Every program that the script starts kills it once."""
    killed = 0
    for at in itertools.count(1):
        machine = Machine(tmp_path / str(at))
        machine.python()
        machine.command("g++", "exit 0")
        python3 = machine.bin / "python3"
        head, rest = python3.read_text().split("\n", 1)
        counts = f"""
            echo "$*" >>"{machine.root}/calls"
            mapfile -t calls <"{machine.root}/calls"
            ((${{#calls[@]}} != ${{KILL_AT:-0}})) || kill -9 $PPID
        """
        rest = rest.replace("exit 3", 'mkdir -p "$3/bin" && cat "$0" >"$3/bin/python" && '
                            'chmod +x "$3/bin/python"')  # fmt: skip
        python3.write_text(f"{head}\n{counts}\n{rest}")
        if state == "outdated":
            finished(machine)
            shutil.copy(python3, machine.root / ".venv/bin/python")
            change(machine)
        machine.run(KILL_AT=str(at))
        ended = len((machine.root / "calls").read_text().splitlines()) < at
        venv = machine.root / ".venv"
        done = machine.run()
        assert done.returncode == 0, (at, done.stderr)
        assert (venv / "set-up-complete").exists() and not (venv / "set-up-begun").read_text()
        assert machine.run().stdout == "", at
        if ended:
            break
        killed += 1
    assert killed > 5


def test_what_a_killed_change_left_is_not_built_upon(machine):
    """Pip may have been killed within a package."""
    finished(machine, pip="kill -9 $PPID")
    torn = machine.root / ".venv/lib"
    torn.touch()
    change(machine)
    assert machine.run().returncode == -9 and torn.exists()
    machine.python()
    machine.command("g++", "exit 0")
    assert machine.run().returncode == 3  # exit code of the fake python3's -m venv
    assert not torn.exists()


def test_an_activated_environment_is_made_anew_from_its_base_python(machine):
    outdated(machine)
    own = machine.root / ".venv/bin"
    (machine.root / ".venv/set-up-begun").write_text("changing\n")
    shutil.copy(machine.bin / "python3", own)
    script = (own / "python3").read_text().replace('echo "$0"', f'echo "{machine.bin}/python3"')
    (own / "python3").write_text(script)
    result = machine.run(PATH=f"{own}:{machine.bin}")
    assert result.returncode == 3, result.stderr  # exit code of the base Python's -m venv


@pytest.mark.skipif(not shutil.which("pgrep"), reason="needs pgrep")
def test_an_environment_in_use_is_not_replaced(machine):
    outdated(machine)
    program = machine.root / ".venv/bin/sleep"
    program.symlink_to(shutil.which("sleep"))
    with subprocess.Popen([program, "60"]) as process:
        message = f"but process {process.pid} runs from it: wait for its end, or stop it"
        refused(machine.run(), message)
        process.kill()
    assert machine.run().returncode == 0


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_an_environment_in_use_by_a_plain_python_is_not_replaced(machine):
    """Of an activated environment, nothing in the command says where it is."""
    outdated(machine)
    module = machine.root / ".venv" / "module.so"
    module.write_bytes(b"compiled")
    load = "f = open('.venv/module.so'); m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE)"
    command = [sys.executable, "-c", f"import mmap; {load}; print('loaded', flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=machine.root, **pipes) as process:
        process.stdout.readline()
        refused(machine.run(), f"but process {process.pid} runs from it: wait for its end")
        process.kill()
    assert machine.run().returncode == 0


@pytest.mark.parametrize("missing", [None, "fairseq", "pytest", ".venv is there"])
def test_a_complete_python_needs_no_set_up(machine, missing):
    shutil.copy(ROOT / "scripts" / "env.sh", machine.root / "scripts")
    has = f"[[ $* != *{missing}* ]]"
    machine.command("python3", f"[[ $* == *find_spec* ]] && {has}")
    if missing == ".venv is there":
        finished(machine)
    script = 'set -eu; needs=(pytest); . scripts/env.sh; echo "$python"'
    done = subprocess.run(
        [shutil.which("bash"), "-c", script], cwd=machine.root, env={"PATH": str(machine.bin)},
        capture_output=True, text=True,
    )  # fmt: skip
    if missing in ("fairseq", "pytest"):
        refused(done, "fairseq runs on 3.11 to 3.13")  # setup.sh was called
        return
    used = machine.root / ".venv/bin/python" if missing else machine.bin / "python3"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{used}\n", "")


def test_set_up_fetches_a_supported_python(machine):
    """With only Python 3.14, uv is installed and fetches Python 3.13."""
    machine.python("3.13.9")
    (machine.bin / "python3").rename(machine.root / "managed-python")
    machine.python("3.14.2")
    python3 = machine.bin / "python3"
    fake = f"""
        if [[ $* == *"-m venv"*/.python ]]; then
            mkdir -p "$3/bin"
            printf '#!{shutil.which("bash")}\\n' > "$3/bin/python"
            cat > "$3/bin/uv" <<END
#!{shutil.which("bash")}
[[ \\$2 == find ]] && echo "{machine.root}/managed-python" || true
END
            chmod +x "$3/bin/python" "$3/bin/uv"
            exit 0
        fi
    """
    lines = python3.read_text().split("\n", 1)
    python3.write_text(f"{lines[0]}\n{fake}\n{lines[1]}")
    machine.command("c++", "exit 0")
    done = machine.run()
    assert "getting Python 3.13 with uv" in done.stdout
    assert "Setting up" in done.stdout and "Python 3.13.9" in done.stdout


def test_a_link_as_environment_and_outputs_are_ignored_by_git(tmp_path):
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".venv").symlink_to(tmp_path)
    for name in ("runs", "data", ".python"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    arguments = ["git", "-C", tmp_path, "status", "--porcelain"]
    assert subprocess.run(arguments, capture_output=True, text=True).stdout == "?? .gitignore\n"


def test_torchaudio_is_absent_or_can_be_imported():
    """A torchaudio for CUDA breaks packages that import it, if torch is built without CUDA."""
    if importlib.util.find_spec("torchaudio"):
        importlib.import_module("torchaudio")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is for Linux")
def test_triton_has_the_constrained_version():
    pinned = dict(line.split("==") for line in CONSTRAINTS if "==" in line)
    assert importlib.metadata.version("triton") == pinned["triton"]


def test_set_up_compiles_no_tests_and_no_models_of_transformers(tmp_path):
    """Tests and models are a third of all modules, and are hardly ever imported."""
    site = tmp_path / "venv" / "lib" / "python3" / "site-packages"
    used = "torch/testing/_comparison.py", "transformers/modeling_utils.py", "fairseq/models/a.py"
    unused = "numpy/linalg/tests/test_a.py", "transformers/models/bert/modeling_bert.py"
    for name in used + unused:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    lines = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8").splitlines()
    (pattern,) = (line for line in lines if line.startswith("rarely="))
    (command,) = (line for line in lines if "-m compileall" in line)
    python = site.parents[2] / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    script = f"venv={shlex.quote(str(tmp_path / 'venv'))}\n{pattern}\n{command}"
    free = {k: v for k, v in os.environ.items() if k != "PYTHONPYCACHEPREFIX"}
    subprocess.run(["bash", "-c", script], check=True, env=free)
    compiled = {cache.parent.parent for cache in site.rglob("*.pyc")}
    assert compiled == {(site / name).parent for name in used}
