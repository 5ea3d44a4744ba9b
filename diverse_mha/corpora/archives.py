"""Packed texts and archives, read without trusting what is in them.

A member of an archive is asked for by its name and written under one of ours, never under that of
the archive, so an entry with ``..``, a link or a device does no harm: it is passed over, or refused
if it is what was asked for. What unpacks to a size that no text does is refused.
"""

import bz2
import contextlib
import fnmatch
import gzip
import io
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from tqdm import tqdm

from diverse_mha.common.errors import UserError

BLOCK = 1 << 20
# Text packs to a tenth or so. What unpacks to far more than that is no text, and may be meant to
# fill the disk; a small file may do no harm.
BOMB_RATIO = 200
BOMB_SMALL = 1 << 27
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError)
#: What opens a packed file, by its first bytes.
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}

# An entry: its name, bytes when unpacked, whether it is a plain file, and what opens it.
Entry = tuple[str, int, bool, Callable[[], IO[bytes]]]


class _Limited(io.RawIOBase):
    """What comes out of a packed file, up to a bound."""

    def __init__(self, file: IO[bytes], path: Path):
        self._file, self._path, self._left = file, path, _unpack_limit(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise _bomb(self._path)
        buffer[: len(data)] = data
        return len(data)


@contextlib.contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked if it is packed by gzip, bzip2 or xz, whatever its name.

    Raises:
        UserError: If the data are damaged or cut off, or unpack to far more than a text does.
    """
    with open(path, "rb") as raw:
        start = raw.read(6)
    opener = next((opens for magic, opens in _PACKED.items() if start.startswith(magic)), open)
    with _damage_named(path), opener(path, "rb") as file:
        yield io.BufferedReader(_Limited(file, path), BLOCK)


def unpack(archive: Path, patterns: Mapping[str, bool], folder: Path) -> dict[str, dict[str, Path]]:
    """Unpack the members of an archive, a .zip or a tar file, that match some patterns.

    Args:
        archive: The archive; a tar file may be packed.
        patterns: Paths inside the archive, each with whether it may be missing; ``*``, ``?`` and
            ``[...]`` match within one part of a path.
        folder: Where to write; made if need be. The files get new names.

    Returns:
        For each pattern, the matching members by name, in order, and where each now lies.

    Raises:
        UserError: If the archive is damaged or cut off, would unpack to too much, has nothing for
            a pattern, or what matches is no plain file. Nothing of it stays unpacked then.
    """
    found: dict[str, dict[str, Path]] = {pattern: {} for pattern in patterns}
    read = _zip_entries if archive.suffix == ".zip" else _tar_entries
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _damage_named(archive):
            _unpack(archive, read(archive), found, folder)
        for pattern, optional in patterns.items():
            if not found[pattern] and not optional:
                raise UserError(f"{archive} has no {pattern}; it is not the published archive")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return {pattern: dict(sorted(members.items())) for pattern, members in found.items()}


def _unpack(
    archive: Path, entries: Iterator[Entry], found: dict[str, dict[str, Path]], folder: Path
) -> None:
    left = _unpack_limit(archive)  # once more: a tar file may say that zeros follow without them
    for number, (entry, size, plain, open_member) in enumerate(entries):
        left -= size
        if left < 0:
            raise _bomb(archive)
        name = posixpath.normpath(entry)
        wanted = [pattern for pattern in found if _matches(name, pattern)]
        if not wanted:
            continue
        if not plain:
            raise UserError(f"{archive}: {name} is not a plain file; not unpacked")
        place = folder / f"{number:04d}"
        with open_member() as member, open(place, "wb") as file:
            shutil.copyfileobj(member, file, BLOCK)
        for pattern in wanted:
            found[pattern][name] = place


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGE, OSError) as error:
        # The readers of gzip and bzip2 say with a bare OSError that the data are damaged.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise UserError(f"{path} is damaged or cut off ({reason}); fetch it again") from None


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            if info.flag_bits & 1:
                raise UserError(f"{archive}: {info.filename} is encrypted; unpack it yourself")
            plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG) and not info.is_dir()
            yield info.filename, info.file_size, plain, lambda info=info: packed.open(info)


def _tar_entries(archive: Path) -> Iterator[Entry]:
    """Read a tar file once, from end to end."""
    with open_unpacked(archive) as file:
        with tarfile.open(fileobj=file, mode="r|") as tar:
            # Large ones take minutes; how many entries there are is not known beforehand.
            for info in tqdm(
                tar, f"read {archive.name}", unit=" entries", leave=False, disable=None
            ):
                yield info.name, info.size, info.isreg(), lambda info=info: tar.extractfile(info)
        # To the very end, where gzip keeps the checksum of all that came before.
        while file.read(BLOCK):
            pass


def _unpack_limit(path: Path) -> int:
    return max(BOMB_SMALL, BOMB_RATIO * path.stat().st_size)


def _bomb(path: Path) -> UserError:
    return UserError(
        f"{path}: refused, because it unpacks to more than {_unpack_limit(path):,} bytes, "
        f"{BOMB_RATIO} times its size; fetch the published file, or unpack it yourself"
    )
