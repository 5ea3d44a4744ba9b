"""What a check finds: lines of JSON in one file, each on the disk as soon as it is known."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

FILE, JOB = "DIVERSE_MHA_CHECK_FILE", "DIVERSE_MHA_CHECK_JOB"  # in the environment of a job


def put(what: str, of: str = "", **values) -> None:
    """Write down a finding: the title of its table, the name of the row, the cells by column."""
    append(Path(os.environ[FILE]), os.environ[JOB], what, of, **values)


def append(path: Path, job: str, what: str, of: str = "", **values) -> None:
    """Write down a finding of any job."""
    line = json.dumps({"job": job, "what": what, "of": of, **values}, default=str)
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def part(what: str, of: str = "") -> Iterator[None]:
    """Let an error end only this part of a job: it is a finding."""
    try:
        yield
    except Exception as error:
        put(what, of, error=f"{type(error).__name__}: {str(error)[:300]}")


def read(path: Path) -> list[dict]:
    """Read all findings, except a line that a crash cut off."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
