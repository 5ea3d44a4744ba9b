"""The dependency audit: a vulnerability fails, a database that cannot be reached does not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What pip-audit prints, in its columns.
FOUND = "Name   Version ID                  Fix Versions"
AUDIT = f"""
[[ $1 == -c ]] && exit "${{MISSING:-0}}"
for word; do file=$word; [[ -f $word ]] && break; done
echo "$@" >>"$ASKED"
case $DATABASE in
    away) echo "ConnectionError: no such host" >&2; exit 1 ;;
    proxy) printf 'Name   Skip Reason\\njinja2 not found\\n'; exit 0 ;;
esac
if [[ $file != constraints.txt ]]; then
    printf '{FOUND}\\njinja2 2.4.1   PYSEC-2014-8        2.7.3\\n'; exit 1
fi
[[ $DATABASE == clean || "$*" == *"--ignore-vuln PYSEC-1"* ]] && exit 0
printf '{FOUND}\\ntorch  2.13.0  PYSEC-1             3.0\\n'; exit 1
"""


@pytest.fixture
def audit(tmp_path):
    """Function that runs the script with a stand-in for pip-audit."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    python = tmp_path / "python"
    python.write_text(f"#!{shutil.which('bash')}\n{AUDIT}")
    python.chmod(0o755)

    def run(database):
        environment = {
            "PATH": os.environ["PATH"],
            "DIVERSE_MHA_PYTHON": str(python),
            "DATABASE": database,
            "ASKED": str(tmp_path / "asked"),
        }
        return subprocess.run(
            ["bash", "scripts/audit.sh"], cwd=tmp_path, env=environment, capture_output=True,
            text=True,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("database", ["away", "proxy"])
def test_no_database_is_said_in_one_line_and_passes(audit, database, tmp_path):
    done = audit(database)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "dependency audit skipped: the vulnerability database of the package index cannot be "
        "reached\n"
    )
    assert len((tmp_path / "asked").read_text().splitlines()) == 1, "one question shows it"


def test_nothing_found_passes(audit):
    done = audit("clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "dependency audit: no known vulnerability in constraints.txt\n"


def test_a_vulnerability_fails_and_is_shown(audit):
    done = audit("found")
    assert done.returncode == 1
    assert "torch  2.13.0  PYSEC-1" in done.stdout
    assert done.stderr.startswith("error: constraints.txt: known vulnerabilities; take the fixed")


def test_one_that_is_listed_with_a_reason_is_passed_over(audit, tmp_path):
    with open(tmp_path / "scripts/audit-ignore.txt", "a") as file:
        file.write("PYSEC-1 the function it is in is never called here\n")
    assert audit("found").returncode == 0


def test_every_listed_one_has_a_reason():
    lines = (ROOT / "scripts/audit-ignore.txt").read_text().splitlines()
    for line in lines:
        assert line.startswith("#") or len(line.split()) > 3, line
