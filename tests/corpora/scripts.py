"""Runs the scripts of ``data-prep/``; their Python commands run on the warm server."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from diverse_mha.common.files import ROOT
from diverse_mha.common.vocabulary import sha256_of_symbols
from tests import warm


def environment(real: bool = False) -> dict[str, str]:
    """Return the environment of a script.

    With ``real``, its Python commands start in new processes instead of the warm server.
    """
    python = {"DIVERSE_MHA_PYTHON": sys.executable}
    if not real:
        server = warm.server()
        python = {"DIVERSE_MHA_PYTHON": str(server.python), **server.variables}
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **python}


def run(name, *words, cwd, scripts=ROOT, check=True):
    """Run ``prepare-NAME.sh``; with ``check`` it must succeed and print no errors."""
    done = subprocess.run(
        ["bash", str(Path(scripts, f"data-prep/prepare-{name}.sh")), *map(str, words)],
        cwd=cwd, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if check:
        assert (done.returncode, done.stderr) == (0, "")
    return done


def refused(name, *words, cwd, scripts=ROOT) -> str:
    """Run a script that must fail; return its one-line error."""
    done = run(name, *words, cwd=cwd, scripts=scripts, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def for_miniatures(folder: Path) -> Path:
    """Copy the scripts into a folder, without the checksums that would reject miniatures."""
    shutil.copytree(ROOT / "data-prep", folder / "data-prep")
    for name in ("scripts", "diverse_mha"):
        (folder / name).symlink_to(ROOT / name)
    for script in (folder / "data-prep").glob("prepare-*.sh"):
        script.write_text(unchecked(script.read_text()))
    return folder


def unchecked(script: str) -> str:
    """Remove checksums, and expected numbers of lines and tokens, from a script."""
    script = re.sub(r"\b(sha256|md5):[0-9a-f]{32,64}", "none", script)
    script = re.sub(r'"(text-)?sha256:\$2"', "none", script).replace("--lines=4000 ", "")
    return re.sub(r"tokens --train=.*", "tokens", script)


def digest(out: Path) -> str:
    """Return a short checksum of the output of a preparation.

    Stamps and hashes are left out, also the hashes of the dictionaries in ``corpus.json``, because
    the dictionaries are in the output themselves.
    """
    own = ("stamp", ".hashes")
    paths = (path for path in out.rglob("*") if path.is_file() and path.name not in own)
    files = sorted((str(path.relative_to(out)), _content(path)) for path in paths)
    lines = (f"{name} {hashlib.sha256(data).hexdigest()}\n" for name, data in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


def loaded_hashes(data: Path, *files: str) -> dict[str, str]:
    """Return file -> hash of the symbols that fairseq loads from a data folder's dictionaries."""
    from fairseq.data import Dictionary

    return {f: sha256_of_symbols(Dictionary.load(str(data / f)).symbols) for f in files}


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if path.name == "corpus.json":
        content = re.sub(rb',\n  "dictionaries": \{[^}]*\}', b"", content)
    return content
