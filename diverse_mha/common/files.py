"""Files that are written whole or not at all."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from diverse_mha.common.errors import UserError


def read_json(path: Path, cure: str) -> Any:
    """Read a JSON file; a broken one is a :class:`UserError` that ends with ``cure``."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not readable as JSON ({error}); {cure}") from None


def write_json(path: Path, content: dict) -> None:
    """Write indented JSON, replacing the file in one step."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8, replacing the file in one step."""
    write_files({path: printable(text).encode()})


def printable(text: str) -> str:
    """Return ``text`` with escapes for bytes of file names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files or none, each replacing its target in one step; makes missing folders."""
    targets = {path: link_target(path) for path in files}
    parts = {path: at.with_name(f".{at.name}.{os.getpid()}.tmp") for path, at in targets.items()}
    try:
        for path, part in parts.items():
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(files[path])
        for path, part in parts.items():
            os.replace(part, targets[path])
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def link_target(path: str | os.PathLike) -> Path:
    """Return the file behind a symbolic link, or the path itself."""
    return Path(os.path.realpath(path) if os.path.islink(path) else path)


@contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open ``path`` for writing bytes, which replace the file once they are on the disk.

    They go to ``path`` + ``.tmp``, which an error removes. A symbolic link stays one.
    """
    path = link_target(path)
    part = Path(f"{path}.tmp")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # a power cut could leave the name without the content
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def sha256_of(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
