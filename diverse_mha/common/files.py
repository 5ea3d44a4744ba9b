"""Files: atomic writes, paths of the package, checks of input and output paths."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.locks import lock


def read_json(path: Path, cure: str) -> Any:
    """Read a JSON file.

    Raises:
        UserError: for invalid JSON. The message ends with ``cure``.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not readable as JSON ({error}); {cure}") from None


def write_json(path: Path, content: dict) -> None:
    """Write indented JSON, replacing the file atomically."""
    write_text(path, json_text(content))


def json_text(content: dict) -> str:
    """Return a file's text of indented JSON."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, replacing the file atomically."""
    write_files({path: printable(text).encode()})


def printable(text: str) -> str:
    """Replace undecodable bytes of file names (surrogates) by backslash escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_results(files: Mapping[Path, str]) -> None:
    """Write the text files of a result; the last one tells that the others are complete.

    It is removed before the first of them is replaced, so that it never stands beside files of
    another result.
    """
    contents = {path: printable(text).encode() for path, text in files.items()}
    write_files(contents, last_tells=True)


def write_files(files: Mapping[Path, bytes], *, last_tells: bool = False) -> None:
    """Write all files under temporary names, then replace each target atomically.

    Missing folders are created. An error before the first replacement leaves all targets unchanged;
    with ``last_tells`` it may remove the last one (see :func:`write_results`).
    """
    targets = {path: link_target(path) for path in files}
    parts = {path: at.with_name(f".{at.name}.{os.getpid()}.tmp") for path, at in targets.items()}
    path = Path()  # the one that an error names
    try:
        for path, part in parts.items():
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(files[path])
        if last_tells:
            *_, last = targets.values()
            last.unlink(missing_ok=True)
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
def atomic_file(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Context manager: open a temporary file for writing bytes, then rename it to ``path``.

    An error deletes the temporary file and leaves ``path`` unchanged. Symbolic links are followed.
    Processes that write one path at once use a temporary file each; the last one to end wins.
    """
    path = link_target(path)
    with _temporary(path) as file:
        part = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power cut could leave an empty file
            # Still locked: another process would empty the file.
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Context manager: yield the path of a folder to make, which then replaces ``path``.

    It is in a temporary folder beside ``path``; an error removes that, and leaves ``path`` as it
    is.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as beside:
        made = Path(beside, "made")
        yield made
        if path.exists():
            path.rename(Path(beside, "before"))  # removed with the temporary folder
        made.rename(path)


def _temporary(path: Path) -> BinaryIO:
    """Open, lock and empty ``path.tmp``; if another process writes it, ``path.2.tmp``, and so on.

    What a killed process left is no longer locked, and is used again.
    """
    number, tries = 1, 0
    while True:
        name = f"{path}.tmp" if number == 1 else f"{path}.{number}.tmp"
        # Not emptied yet: another process may be writing it.
        file = open(name, "wb", opener=lambda at, flags: os.open(at, flags & ~os.O_TRUNC, 0o666))
        if not lock(file.fileno()):
            file.close()
            number += 1
            continue
        # Its writer may have renamed it just before it was locked. Few tries, because a file system
        # may have no constant file numbers.
        if tries == 9 or _is_at(file, name):
            file.truncate()
            return file
        file.close()
        tries += 1


def _is_at(file: BinaryIO, name: str) -> bool:
    """Return True if an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(name))
    except FileNotFoundError:
        return False


def sha256_of(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileHashes:
    """SHA-256 of files, read again only if a file's size, times or number have changed.

    Attributes:
        known: key of a file -> its size, times, number and hash; to be kept in a file.
    """

    def __init__(self, known: dict):
        self.known = known

    def of(self, path: Path, key: str = "") -> str | None:
        """Return the SHA-256 of a file; None if it is missing. ``key`` defaults to its path."""
        try:
            found = path.stat()
        except OSError:
            return None
        stamp = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        key = key or str(path.resolve())
        known = self.known.get(key)
        if not (isinstance(known, list) and known[:-1] == stamp):
            known = self.known[key] = [*stamp, sha256_of(path)]
        return known[-1]


#: The package's folder, for fairseq's ``--user-dir``, and the parent of that folder. The parent is
#: the root of the repository in a clone.
USER_DIR = Path(__file__).resolve().parents[1]
ROOT = USER_DIR.parent
#: The recipes: inside the package in a wheel, beside it in a clone.
CONFIGS = USER_DIR / "configs" if (USER_DIR / "configs").is_dir() else ROOT / "configs"

MAKE_DATA = "make it with a script of data-prep/ or with fairseq-preprocess"


def check_data_exists(folder: Path) -> None:
    """Raise an error for a missing data folder."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such data folder; {MAKE_DATA}")


def check_data_folder(
    data: str | Path,
    dictionaries: Sequence[str] = ("dict*.txt",),
) -> Path:
    """Return the first folder of fairseq's data path, which joins folders by ``:``.

    Raises:
        UserError: if a folder is missing, or the first has no file that matches ``dictionaries``.
    """
    folders = [Path(name) for name in str(data).split(os.pathsep)]
    for folder in folders:
        check_data_exists(folder)
    if not any(any(folders[0].glob(pattern)) for pattern in dictionaries):
        inside = folders[0] / "bin"  # the layout of data-prep/
        there = any(any(inside.glob(pattern)) for pattern in dictionaries)
        cure = inside if there else "the folder that fairseq-preprocess wrote (its --destdir)"
        raise UserError(f"data folder {folders[0]} holds no dictionary (dict*.txt); give {cure}")
    return folders[0]


def folder_error(path: str | Path, option: str | None = None) -> UserError:
    """Return the error for a folder in the place of a checkpoint, given by ``option`` if any."""
    names = sorted(file.name for file in Path(path).glob("*.pt"))
    best = "checkpoint_best.pt"
    cure = f"give a .pt file in it, such as {names[-1] if names and best not in names else best}"
    return UserError(Option(option, path) if option else str(path), f": is a folder; {cure}")


def check_checkpoint(path: str | Path) -> None:
    """Raise an error unless ``path`` is a file."""
    if Path(path).is_dir():
        raise folder_error(path)
    if not Path(path).is_file():
        if any(map(os.path.isfile, str(path).split(os.pathsep))):
            raise UserError(f"{path}: names several checkpoints; give one, without {os.pathsep!r}")
        raise UserError(f"{path}: no such checkpoint; check the folder and the name")


def check_output_file(option: str, path: str | Path, ending: str = "") -> None:
    """Raise an error if ``path`` cannot be written or lacks ``ending``.

    Missing parent folders are allowed. ``option`` is the option that set the path, for messages.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{option} {path}: is a folder; give a file name")
    if path.exists() and not path.is_file():
        raise UserError(f"{option} {path}: is not a regular file; give another name")
    if not path.name.endswith(ending):
        raise UserError(f"{option} {path}: must end in {ending}")
    _check_above(option, path, link_target(path).parent)


def check_output_folder(option: str, path: str | Path) -> None:
    """Raise an error if a folder cannot be written to. A missing folder is allowed."""
    _check_above(option, Path(path), Path(path))


def check_no_checkpoints(option: str, path: str | Path) -> None:
    """Like :func:`check_output_folder`; also refuses a folder with checkpoints.

    Checkpoints in its subfolders, and in the subfolders of these, count too.
    """
    check_output_folder(option, path)
    run = next((found for n in (0, 1, 2) for found in Path(path).glob("*/" * n + "*.pt")), None)
    if run is not None:
        raise UserError(f"{option} {path}: has checkpoints of a run ({run}); choose another folder")


def _check_above(option: str, path: Path, folder: Path) -> None:
    folder = folder.absolute()
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise UserError(f"{option} {path}: {folder} is not a folder; choose another path")
    if not os.access(folder, os.W_OK | os.X_OK) or folder.is_relative_to("/proc"):
        raise UserError(f"{option} {path}: {folder} cannot be written to; choose another path")
