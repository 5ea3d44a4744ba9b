"""Take single members out of tar and zip archives, without trusting what else is in them.

A member is asked for by its name and written under one of ours, never under that of the archive,
so an entry with ``..``, a link or a device does no harm: it is passed over, or refused if it is
what was asked for. An archive that unpacks to a size that no text does is refused.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from tqdm import tqdm

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.published import bomb, unpack_limit

BLOCK = 1 << 20
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError)
#: What opens a packed tar file, by its first bytes.
_PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}

# An entry: its name, bytes when unpacked, whether it is a plain file, and what opens it.
Entry = tuple[str, int, bool, Callable[[], IO[bytes]]]


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
    left = unpack_limit(archive)
    for number, (entry, size, plain, open_member) in enumerate(entries):
        left -= size
        if left < 0:
            raise bomb(archive)
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
def _damage_named(archive: Path) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGE, OSError) as error:
        # The readers of gzip and bzip2 say with a bare OSError that the data are damaged.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0] or "it ends too early"
        raise UserError(f"{archive} is damaged or cut off ({reason}); fetch it again") from None


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG) and not info.is_dir()
            yield info.filename, info.file_size, plain, lambda info=info: packed.open(info)


def _tar_entries(archive: Path) -> Iterator[Entry]:
    """Read a tar file once, from end to end, with a bar that shows how far it has been read."""
    with open(archive, "rb") as raw:
        start = raw.read(6)
        raw.seek(0)
        unpacking = (opener for magic, opener in _PACKED.items() if start.startswith(magic))
        with tqdm.wrapattr(
            raw, "read", archive.stat().st_size, desc=f"read {archive.name}", leave=False,
            disable=None,
        ) as watched:  # fmt: skip
            plain = next(unpacking, contextlib.nullcontext)(watched)
            with plain as file:
                limited = _Limited(file, archive)
                with tarfile.open(fileobj=limited, mode="r|") as tar:
                    for info in tar:
                        yield info.name, info.size, info.isreg(), lambda i=info: tar.extractfile(i)
                # To the very end, where gzip keeps the checksum of all that came before.
                while limited.read(BLOCK):
                    pass


class _Limited:
    """What comes out of a packed tar file, up to a bound.

    The sizes of the entries are not enough: the head of an entry may be as large as it likes, and
    is read into memory. Heads and the padding of every entry come on top of the texts.
    """

    def __init__(self, file: IO[bytes], archive: Path):
        self._file, self._archive = file, archive
        self._left = 2 * unpack_limit(archive)

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise bomb(self._archive)
        return data
