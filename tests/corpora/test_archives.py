"""Members come out of archives; nothing gets out of the folder."""

import tarfile

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.archives import unpack
from tests.corpora.miniature import write_archive

FILES = {"a/one.txt": b"eins\n", "a/two.txt": b"zwei\n", "./b/one.txt": b"drei\n", "c": b""}


def entry(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def texts(unpacked):
    return {
        pattern: {name: place.read_bytes() for name, place in files.items()}
        for pattern, files in unpacked.items()
    }


@pytest.mark.parametrize("name", ["x.tgz", "x.tar.gz", "x.zip"])
def test_only_what_matches_is_unpacked_and_in_order(tmp_path, name):
    write_archive(tmp_path / name, FILES)
    found = unpack(
        tmp_path / name, {"a/*.txt": False, "b/one.txt": False, "d/*": True}, tmp_path / "out"
    )
    assert texts(found) == {
        "a/*.txt": {"a/one.txt": b"eins\n", "a/two.txt": b"zwei\n"},
        "b/one.txt": {"b/one.txt": b"drei\n"},
        "d/*": {},
    }
    assert list(found["a/*.txt"]) == ["a/one.txt", "a/two.txt"]
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_star_stays_within_a_folder(tmp_path):
    write_archive(tmp_path / "x.tgz", {"a/b/one.txt": b"", "one.txt": b"1"})
    with pytest.raises(UserError, match=r"x.tgz has no a/\*.txt; it is not the published archive"):
        unpack(tmp_path / "x.tgz", {"a/*.txt": False}, tmp_path / "out")
    assert texts(unpack(tmp_path / "x.tgz", {"*.txt": False}, tmp_path / "out")) == {
        "*.txt": {"one.txt": b"1"}
    }


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_only_plain_files_are_unpacked(tmp_path, kind):
    """A link within the archive is harmless, but not the text that was asked for."""
    write_archive(tmp_path / "x.tgz", {"a/good": b"1", "a/odd": entry("a/odd", kind, "good")})
    assert texts(unpack(tmp_path / "x.tgz", {"a/good": False}, tmp_path / "out"))
    with pytest.raises(UserError, match="a/odd is not a plain file"):
        unpack(tmp_path / "x.tgz", {"a/odd": False}, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["x.tgz", "x.zip", "x.tar"])
@pytest.mark.parametrize("data", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_what_is_no_archive_is_named(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=f"{name} is damaged or cut off") as info:
        unpack(tmp_path / name, {"a": False}, tmp_path / "out")
    assert "\n" not in str(info.value)


def test_encrypted_archive_is_refused(tmp_path):
    write_archive(tmp_path / "x.zip", {"a/one.txt": b"eins\n"})
    data = bytearray((tmp_path / "x.zip").read_bytes())
    for start, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # of the member and of its listing
        data[data.index(start) + flags] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(UserError, match="x.zip: a/one.txt is encrypted; unpack it yourself"):
        unpack(tmp_path / "x.zip", {"a/*": False}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["x.tgz", "x.zip"])
def test_flipped_byte_is_found(tmp_path, name):
    path = tmp_path / name
    write_archive(path, {"good": bytes(range(256)) * 40})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match=f"{name} is damaged or cut off"):
        unpack(path, {"good": False}, tmp_path / "out")
