"""A file as its publisher offers it, and the check that a copy of it is the right one."""

import dataclasses
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diverse_mha.common.errors import UserError

BLOCK = 1 << 20
# Text packs to a tenth or so. What unpacks to far more than that is no text, and may be meant to
# fill the disk; a small file may do no harm.
BOMB_RATIO = 200
BOMB_SMALL = 1 << 27


@dataclass(frozen=True)
class PublishedFile:
    """One file of a corpus.

    Attributes:
        name: Its file name, here and in a folder given by --from.
        urls: Where it can be had; tried in this order.
        size: Bytes of the file as published.
        checksum: Of the file as published, "sha256:..." or "md5:...".
        text_checksum: Of the text inside, when the packed file is not the same everywhere
            (gzip stores a time stamp, and mirrors recompress).
        lines: Number of lines of the text inside.
    """

    name: str
    urls: tuple[str, ...] = ()
    size: int | None = None
    checksum: str | None = None
    text_checksum: str | None = None
    lines: int | None = None


@dataclass(frozen=True)
class Member:
    """Text inside a published archive.

    Attributes:
        archive: The archive.
        name: Its path in there. ``*`` and ``[...]`` may stand for parts of a file name; the
            text is then that of all matching members, in the order of their names.
        markup: How to read sentences from it, a key of :data:`diverse_mha.corpora.markup.READERS`.
        lines: Number of sentences, where it is known.
        optional: Whether the archive may lack it.
    """

    archive: PublishedFile
    name: str
    markup: str = "plain"
    lines: int | None = None
    optional: bool = False


def unchecked(side: PublishedFile | Member) -> PublishedFile | Member:
    """Return the same file or member without what would be checked of it."""
    if isinstance(side, Member):
        return dataclasses.replace(side, archive=unchecked(side.archive), lines=None)
    return PublishedFile(side.name, side.urls)


def verify(file: PublishedFile, path: Path) -> None:
    """Check a copy against what is known of the file: size, checksum, text checksum, lines.

    Raises:
        UserError: Naming the copy and the first thing that does not fit.
    """
    if file.size is not None and path.stat().st_size != file.size:
        raise UserError(f"{path} has {path.stat().st_size:,} bytes, expected {file.size:,}")
    if file.checksum is not None:
        with open(path, "rb") as copy:
            digest = hashlib.file_digest(copy, file.checksum.partition(":")[0])
        _compare(path, "file", file.checksum, digest.hexdigest())
    if file.lines is None and file.text_checksum is None:
        return
    lines, last, digest = 0, b"\n", None
    if file.text_checksum is not None:
        digest = hashlib.new(file.text_checksum.partition(":")[0])
    for block in unpacked(path):
        lines += block.count(b"\n")
        last = block[-1:]
        if digest is not None:
            digest.update(block)
    lines += last != b"\n"
    if file.lines is not None and lines != file.lines:
        raise UserError(f"{path} has {lines:,} lines, expected {file.lines:,}")
    if digest is not None:
        _compare(path, "text", file.text_checksum, digest.hexdigest())


def unpacked(path: Path) -> Iterator[bytes]:
    """Yield the contents of a file in blocks, unpacked if it is gzip (whatever its name).

    Raises:
        UserError: If the gzip data is damaged or cut off, or is a decompression bomb.
    """
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    if not packed:
        yield from _blocks(path)
        return
    limit, size = unpack_limit(path), 0
    try:
        with gzip.open(path, "rb") as file:
            while block := file.read(BLOCK):
                size += len(block)
                if size > limit:
                    raise bomb(path)
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is damaged or cut off ({error}); fetch it again") from None


def unpack_limit(path: Path) -> int:
    """Return how many bytes a packed file may unpack to before it is refused."""
    return max(BOMB_SMALL, BOMB_RATIO * path.stat().st_size)


def bomb(path: Path) -> UserError:
    """Make the error for a file that would unpack to more than ``unpack_limit``."""
    return UserError(
        f"{path}: refused, because it unpacks to more than {unpack_limit(path):,} bytes, "
        f"{BOMB_RATIO} times its size; fetch the published file, or unpack it yourself"
    )


def _blocks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block


def _compare(path: Path, what: str, expected: str, actual: str) -> None:
    method, _, value = expected.partition(":")
    if actual != value:
        raise UserError(
            f"{path} is not the published {what}: its {method} is {actual}, expected {value}"
        )
