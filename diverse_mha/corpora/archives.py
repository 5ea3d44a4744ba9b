"""Take single members out of tar and zip archives, without trusting the names in them.

Before anything is unpacked, every entry of the archive is looked at: one with an absolute path,
with ``..``, a link that leads out of the archive, or a device makes the whole archive refused,
and so does a size that no text unpacks to. What is unpacked is written under names of ours, never
under those of the archive.
"""

import bz2
import contextlib
import fnmatch
import gzip
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.published import bomb, unpack_limit

BLOCK = 1 << 20
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
)


@dataclass(frozen=True)
class Entry:
    """One entry of an archive.

    Attributes:
        name: Its path, as the archive has it.
        kind: "file", "folder", "symbolic link", "hard link" or "device".
        size: Bytes, unpacked.
        target: Where a link leads.
    """

    name: str
    kind: str
    size: int = 0
    target: str = ""


def unpack(archive: Path, patterns: Mapping[str, bool], folder: Path) -> dict[str, dict[str, Path]]:
    """Unpack the members of an archive that match some patterns.

    Args:
        archive: A .zip file, or a tar file, packed or not.
        patterns: Paths inside the archive, each with whether it may be missing; ``*``, ``?`` and
            ``[...]`` match within one part of a path.
        folder: Where to write; made if need be. The files get new names.

    Returns:
        For each pattern, the members that match and where each now lies, in the order of their
        names.

    Raises:
        UserError: If the archive is damaged or cut off, has an unsafe entry, has nothing for a
            pattern, or what matches is no plain file. Nothing is unpacked before the first
            three are ruled out.
    """
    with _readable(archive):
        entries = _check(archive, _entries(archive))
        wanted = {}
        for pattern, optional in patterns.items():
            names = sorted(name for name in entries if _matches(name, pattern))
            if not names and not optional:
                raise UserError(f"{archive} has no {pattern}; it is not the published archive")
            for name in names:
                if entries[name].kind != "file":
                    raise UserError(
                        f"{archive}: {name} is a {entries[name].kind}, not a file; not unpacked"
                    )
            wanted[pattern] = names
        folder.mkdir(parents=True, exist_ok=True)
        every = sorted({name for names in wanted.values() for name in names})
        places = {name: folder / f"{number:04d}" for number, name in enumerate(every)}
        _extract(archive, places, entries)
    return {pattern: {name: places[name] for name in names} for pattern, names in wanted.items()}


@contextlib.contextmanager
def _readable(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise UserError(f"{archive} is damaged or cut off ({reason}); fetch it again") from None


def _check(archive: Path, entries: Iterator[Entry]) -> dict[str, Entry]:
    """Return the entries by their tidy names, or refuse the archive for an unsafe one."""
    found, size, limit = {}, 0, unpack_limit(archive)
    for entry in entries:
        size += entry.size
        if size > limit:
            raise bomb(archive)
        if entry.kind == "device":
            raise UserError(
                f"{archive}: refused, because its entry {entry.name!r} is a device or a pipe, "
                "which no published corpus has"
            )
        if _leads_out(entry.name):
            raise UserError(
                f"{archive}: refused, because its entry {entry.name!r} leads out of the folder "
                f"it would be unpacked into"
            )
        if entry.target and _leads_out(entry.target, posixpath.dirname(entry.name), entry.kind):
            raise UserError(
                f"{archive}: refused, because its {entry.kind} {entry.name!r} leads out of the "
                f"archive, to {entry.target!r}"
            )
        found[posixpath.normpath(entry.name)] = entry
    return found


def _leads_out(path: str, folder: str = "", kind: str = "") -> bool:
    path = path.replace("\\", "/")
    if path.startswith("/") or path[1:2] == ":":
        return True
    if not kind:  # a name, in which even a harmless .. has no place
        return ".." in path.split("/")
    if kind == "symbolic link":  # relative to its folder; a hard link starts at the top
        path = posixpath.join(folder, path)
    return posixpath.normpath(path).split("/")[0] == ".."


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _is_zip(archive: Path) -> bool:
    return archive.suffix == ".zip"


def _entries(archive: Path) -> Iterator[Entry]:
    if _is_zip(archive):
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                yield _zip_entry(file, info)
        return
    with _open_tar(archive, "check") as tar:
        for info in tar:
            kind = next((name for test, name in _TAR_KINDS if test(info)), "device")
            yield Entry(info.name, kind, info.size, info.linkname)
        # To the very end, where gzip keeps the checksum of all that came before.
        while tar.fileobj.read(BLOCK):
            pass


_TAR_KINDS = (
    (tarfile.TarInfo.isreg, "file"),
    (tarfile.TarInfo.isdir, "folder"),
    (tarfile.TarInfo.issym, "symbolic link"),
    (tarfile.TarInfo.islnk, "hard link"),
)


def _zip_entry(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        return Entry(info.filename, "device")
    if stat.S_ISLNK(mode):
        if info.file_size > BLOCK:
            raise zipfile.BadZipFile("a link of many bytes")
        return Entry(info.filename, "symbolic link", 0, file.read(info).decode("utf-8", "replace"))
    return Entry(info.filename, "folder" if info.is_dir() else "file", info.file_size)


@contextlib.contextmanager
def _open_tar(archive: Path, verb: str) -> Iterator[tarfile.TarFile]:
    """Open a tar file, with a bar that shows how far it has been read."""
    size = archive.stat().st_size
    bar = tqdm(
        total=size, desc=f"{verb} {archive.name}", unit="B", unit_scale=True, leave=False,
        disable=None,
    )  # fmt: skip
    with bar, open(archive, "rb") as raw:
        with _unpacking(_Ticking(raw, bar)) as plain:
            limited = _Limited(plain, archive)
            with tarfile.open(fileobj=limited, mode="r:") as tar:
                yield tar


def _unpacking(raw: "_Ticking") -> IO[bytes]:
    """Open what is packed by its first bytes, as tar does."""
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if start.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if start.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
        return lzma.LZMAFile(raw)
    return contextlib.nullcontext(raw)


class _Limited:
    """What comes out of a packed tar file, up to ``unpack_limit``.

    The sizes of the entries are not enough: the head of an entry may be as large as it likes, and
    is read into memory.
    """

    def __init__(self, file: IO[bytes], archive: Path):
        self._file, self._archive = file, archive
        # Heads and the padding of every entry come on top of the texts.
        self._limit = 2 * unpack_limit(archive)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, position: int, whence: int = 0) -> int:
        if whence == 0 and position > self._limit:
            raise bomb(self._archive)
        with _damage_named():
            return self._file.seek(position, whence)

    def read(self, size: int = -1) -> bytes:
        if size < 0 or self._file.tell() + size > self._limit:
            raise bomb(self._archive)
        with _damage_named():
            return self._file.read(size)


@contextlib.contextmanager
def _damage_named() -> Iterator[None]:
    """Bzip2 says with a bare OSError that its data is damaged."""
    try:
        yield
    except OSError as error:
        if error.errno is not None or isinstance(error, gzip.BadGzipFile):
            raise
        raise EOFError(str(error)) from None


class _Ticking:
    """A file opened for reading that tells a progress bar how far it is."""

    def __init__(self, file: IO[bytes], bar: tqdm):
        self._file, self._bar = file, bar

    def __getattr__(self, name: str):
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._bar.update(max(0, self._file.tell() - self._bar.n))
        return data


def _extract(archive: Path, places: dict[str, Path], entries: dict[str, Entry]) -> None:
    if _is_zip(archive):
        with zipfile.ZipFile(archive) as file:
            for name, place in places.items():
                with file.open(entries[name].name) as member:
                    _copy(member, place)
    else:
        with _open_tar(archive, "unpack") as tar:
            left = set(places)
            for info in tar:
                name = posixpath.normpath(info.name)
                if name in left and info.isreg():
                    _copy(tar.extractfile(info), places[name])
    for name, place in places.items():
        if place.stat().st_size != entries[name].size:
            raise EOFError(f"{name} is shorter than it should be")


def _copy(member: IO[bytes], place: Path) -> None:
    with member, open(place, "wb") as file:
        shutil.copyfileobj(member, file, BLOCK)
