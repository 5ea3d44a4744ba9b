"""A file as its publisher offers it, and the check that a copy of it is the right one."""

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.archives import open_unpacked
from diverse_mha.corpora.text import count_lines


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
        also: Other names that it may have in a folder given by --from, beside the unpacked one.
    """

    markup: ClassVar[str] = "plain"
    name: str
    urls: tuple[str, ...] = ()
    size: int | None = None
    checksum: str | None = None
    text_checksum: str | None = None
    lines: int | None = None
    also: tuple[str, ...] = ()

    @property
    def local_names(self) -> list[str]:
        """The names that it may have in a folder given by --from."""
        packed = self.name.endswith(".gz") and not self.name.endswith(".tar.gz")
        return [self.name, *([self.name.removesuffix(".gz")] if packed else []), *self.also]

    def in_folder(self, folder: Path) -> Path | None:
        """Return where a folder has it, under any of these names; None if it has not."""
        places = (folder / name for name in self.local_names)
        return next((place for place in places if place.is_file()), None)

    @property
    def known(self) -> bool:
        """Whether a checksum tells it from any other file."""
        return bool(self.checksum or self.text_checksum)


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


def file_of(side: PublishedFile | Member) -> PublishedFile:
    """Return the file to fetch for a text: itself, or the archive that it is in."""
    return side.archive if isinstance(side, Member) else side


def unchecked(side: PublishedFile | Member) -> PublishedFile | Member:
    """Return the same file or member without what would be checked of it."""
    if isinstance(side, Member):
        return dataclasses.replace(side, archive=unchecked(side.archive), lines=None)
    return PublishedFile(side.name, side.urls, also=side.also)


def verify(file: PublishedFile, path: Path) -> None:
    """Check a copy against what is known of the file: size, checksum, lines, text checksum.

    Raises:
        UserError: Naming the copy and the first thing that does not fit.
    """
    if file.size is not None and path.stat().st_size != file.size:
        raise UserError(f"{path} has {path.stat().st_size:,} bytes, expected {file.size:,}")
    if file.checksum is not None:
        with open(path, "rb") as copy:
            _compare(path, "file", copy, file.checksum)
    if file.lines is not None and (lines := count_lines(path)) != file.lines:
        raise UserError(f"{path} has {lines:,} lines, expected {file.lines:,}")
    if file.text_checksum is not None:
        with open_unpacked(path) as copy:
            _compare(path, "text", copy, file.text_checksum)


def _compare(path: Path, what: str, copy: IO[bytes], expected: str) -> None:
    method, _, value = expected.partition(":")
    actual = hashlib.file_digest(copy, method).hexdigest()
    if actual != value:
        raise UserError(
            f"{path} is not the published {what}: its {method} is {actual}, expected {value}"
        )
