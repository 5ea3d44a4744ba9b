"""Archives are not trusted: nothing in one leaves the folder or fills the disk."""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora import archives
from diverse_mha.corpora.archives import unpack
from diverse_mha.corpora.text import read_lines

TARS = {"x.tar": "w", "x.tar.gz": "w:gz", "x.tgz": "w:gz", "x.tar.bz2": "w:bz2", "x.tar.xz": "w:xz"}
FORMATS = [*TARS, "x.zip"]
NAMES = ["../evil", "a/../../evil", "a/..", "/etc/evil", "//evil", "..\\evil", "C:\\evil"]
LINKS = [
    (tarfile.SYMTYPE, "/etc/passwd"),
    (tarfile.SYMTYPE, "../evil"),
    (tarfile.SYMTYPE, "good/../../evil"),
    (tarfile.LNKTYPE, "/etc/passwd"),
    (tarfile.LNKTYPE, "../evil"),
]
DEVICES = [
    (tarfile.CHRTYPE, stat.S_IFCHR),
    (tarfile.BLKTYPE, stat.S_IFBLK),
    (tarfile.FIFOTYPE, stat.S_IFIFO),
]


def write(path, name, kind=tarfile.REGTYPE, target="", mode=0):
    """Write an archive with a good text and one entry that means harm."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("good", "good")
            info = zipfile.ZipInfo("placeholder")
            info.filename = name  # the constructor would tidy it
            info.external_attr = (mode | 0o644) << 16
            archive.writestr(info, target or "evil")
        return
    with tarfile.open(path, TARS[path.name]) as archive:
        for entry, content in (("good", b"good"), (name, b"evil")):
            info = tarfile.TarInfo(entry)
            if entry == name:
                info.type, info.linkname = kind, target
            plain = info.type == tarfile.REGTYPE
            info.size = len(content) if plain else 0
            archive.addfile(info, io.BytesIO(content) if plain else None)


def passed_over(path, entry):
    """The good text comes out and nothing else; the entry is no file to be had, or one of ours."""
    out = path.parent / "out"
    found = unpack(path, {"good": False}, out)
    assert [place.read_bytes() for place in found["good"].values()] == [b"good"]
    try:
        (place,) = unpack(path, {entry: False}, out)[entry].values()
    except UserError as error:
        assert "is not a plain file" in str(error) or f"has no {entry}" in str(error)
    else:
        assert place.parent == out and place.read_bytes() == b"evil" and not place.is_symlink()
    assert {file.name for file in path.parent.iterdir()} <= {path.name, "out"}


def refused(path, match):
    with pytest.raises(UserError, match=match) as error:
        unpack(path, {"good": False}, path.parent / "out")
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is unpacked"


@pytest.mark.parametrize("name", FORMATS)
def test_a_good_archive_is_unpacked(tmp_path, name):
    write(tmp_path / name, "other")
    found = unpack(tmp_path / name, {"good": False}, tmp_path / "out")
    assert found["good"]["good"].read_bytes() == b"good"


@pytest.mark.parametrize("evil", NAMES)
@pytest.mark.parametrize("name", FORMATS)
def test_names_that_lead_out_are_not_written_to(tmp_path, name, evil):
    write(tmp_path / name, evil)
    passed_over(tmp_path / name, evil)


@pytest.mark.parametrize(
    "name, kind, target",
    # A zip file has no hard links.
    [(n, *link) for n in FORMATS for link in LINKS if n != "x.zip" or link[0] == tarfile.SYMTYPE],
)
def test_links_that_lead_out_are_not_made(tmp_path, name, kind, target):
    write(tmp_path / name, "link", kind, target, stat.S_IFLNK)
    passed_over(tmp_path / name, "link")
    with pytest.raises(UserError, match="link is not a plain file"):
        unpack(tmp_path / name, {"link": False}, tmp_path / "out")


@pytest.mark.parametrize("kind, mode", DEVICES)
@pytest.mark.parametrize("name", FORMATS)
def test_devices_are_not_made(tmp_path, name, kind, mode):
    write(tmp_path / name, "dev", kind, mode=mode)
    passed_over(tmp_path / name, "dev")
    with pytest.raises(UserError, match="dev is not a plain file"):
        unpack(tmp_path / name, {"dev": False}, tmp_path / "out")


class Zeros(io.RawIOBase):
    """A file of zeros that takes no memory."""

    def __init__(self, size):
        self.left = size

    def read(self, size=-1):
        size = min(size, self.left)
        self.left -= size
        return bytes(size)


@pytest.fixture
def small(monkeypatch):
    """A bound that a test can break in no time."""
    monkeypatch.setattr(archives, "BOMB_SMALL", 1 << 20)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "x.tar"])
def test_a_decompression_bomb_is_refused_before_it_is_unpacked(tmp_path, name, small):
    path, size = tmp_path / name, 1 << 24
    if name == "x.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("good", bytes(size))
    else:
        with tarfile.open(path, TARS[name]) as archive:
            info = tarfile.TarInfo("good")
            info.size = size
            archive.addfile(info, Zeros(size))
    refused(path, "refused, because it unpacks to more than .* bytes, 200 times its size")


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.bz2", "x.tar.xz"])
def test_a_head_of_any_size_is_not_read_into_memory(tmp_path, name, small):
    size = 1 << 24
    info = tarfile.TarInfo("head")
    info.type, info.size = tarfile.XHDTYPE, size
    opener = {"x.tar.gz": gzip, "x.tar.bz2": bz2, "x.tar.xz": lzma}[name].open
    with opener(tmp_path / name, "wb") as file:
        file.write(info.tobuf() + bytes(size))
    refused(tmp_path / name, "refused, because it unpacks to more than")


def test_what_follows_the_end_is_bounded(tmp_path, small):
    path = tmp_path / "x.tar.gz"
    write(path, "other")
    with gzip.open(path, "ab") as file:
        file.write(bytes(1 << 24))
    refused(path, "refused, because it unpacks to more than")


def test_a_packed_text_is_bounded(tmp_path, small):
    path = tmp_path / "train.de.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a\n" * (1 << 23))
    with pytest.raises(UserError, match="train.de.gz: refused, because it unpacks to more than"):
        for _ in read_lines(path):
            pass


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.zip"])
def test_a_damaged_archive_is_called_that(tmp_path, name):
    path = tmp_path / name
    write(path, "other")
    data = bytearray(path.read_bytes())
    for position in range(len(data) // 3, len(data) // 2):
        data[position] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(UserError, match="is damaged or cut off .*; fetch it again|has no good"):
        unpack(path, {"good": False}, tmp_path / "out")
