"""Atomic writing of files, and checks of data folders."""

import errno
import fcntl
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import (
    atomic_file,
    atomic_folder,
    check_data_folder,
    check_output_file,
    write_files,
    write_results,
    write_text,
)


def test_file_is_renamed_once_complete(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with atomic_file(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_a_file_do_not_spoil_each_others(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as first:
        first.write(b"the first, ")
        first.flush()
        with atomic_file(path) as second, atomic_file(path) as third:
            second.write(b"second")
            third.write(b"third")
        assert path.read_bytes() == b"second"
        # It was freed, and no writer takes the first one's.
        with atomic_file(path) as fourth:
            fourth.write(b"fourth")
        assert path.read_bytes() == b"fourth"
        first.write(b"whole")
    assert path.read_bytes() == b"the first, whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_temporary_file_renamed_before_it_is_locked_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    lock, other = fcntl.flock, tmp_path / "file.tmp"

    def late(file, flags):
        monkeypatch.setattr(fcntl, "flock", lock)
        other.write_bytes(b"of another process")
        other.rename(path)  # between open and lock
        lock(file, flags)

    monkeypatch.setattr(fcntl, "flock", late)
    with atomic_file(path) as file:
        assert path.read_bytes() == b"of another process"
        file.write(b"mine")
    assert path.read_bytes() == b"mine" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("locks", [True, False])
def test_what_a_killed_process_left_is_used_again(tmp_path, monkeypatch, locks):
    path = tmp_path / "file"
    (tmp_path / "file.tmp").write_bytes(b"half of a longer file")
    if not locks:

        def missing(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", missing)
    with atomic_file(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_a_folder_is_replaced_whole_or_not_at_all(there, fails, tmp_path):
    path = tmp_path / "model"
    if there:
        path.mkdir()
        (path / "old").touch()
    with pytest.raises(KeyError) if fails else nullcontext(), atomic_folder(path) as made:
        made.mkdir()
        (made / "new").touch()
        if fails:
            raise KeyError
    left = ["new"] if not fails else ["old"] if there else []
    assert [file.name for file in tmp_path.glob("*/*")] == left
    assert [*tmp_path.iterdir()] == ([path] if left else [])


@pytest.mark.parametrize("there", [True, False])
def test_the_target_of_a_symbolic_link_is_replaced(there, tmp_path):
    (tmp_path / "kept").mkdir()
    kept, link = tmp_path / "kept" / "file", tmp_path / "link"
    if there:
        kept.write_bytes(b"before")
    link.symlink_to(Path("kept") / "file")
    with atomic_file(link) as file:
        file.write(b"after")
    assert link.is_symlink() and kept.read_bytes() == b"after"
    write_text(link, "again")
    assert link.is_symlink() and kept.read_bytes() == b"again"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept", "link"]


def test_the_error_contains_the_path_of_the_requested_file(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError) as refused:
        write_files({tmp_path / "a": b"a", tmp_path / "b": b"b"})
    assert refused.value.filename == str(tmp_path / "b") and refused.value.filename2 is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_result_never_stands_beside_files_of_another(tmp_path, monkeypatch, fails):
    files = [tmp_path / name for name in ("a.tok", "a.detok", "a.json")]
    write_results(dict.fromkeys(files, "old"))
    replace, calls = os.replace, []

    def interrupted(part, path):
        calls.append(path)
        if len(calls) > fails:
            raise KeyboardInterrupt
        replace(part, path)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_results(dict.fromkeys(files, "new"))
    assert sorted(tmp_path.iterdir()) == sorted(files[:2]), "the last file tells"
    monkeypatch.undo()
    write_results(dict.fromkeys(files, "whole"))

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="full"):
        write_results(dict.fromkeys(files, "new"))
    assert [file.read_text() for file in files] == ["whole"] * 3


def test_link_to_an_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "link.json").symlink_to("/proc/x.json")
    with pytest.raises(UserError, match="link.json: /proc cannot be written to"):
        check_output_file("--output", tmp_path / "link.json", ".json")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_while_writing_keeps_the_existing_file(error, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(error), atomic_file(path) as file:
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_data_folders_and_dictionaries_are_reported(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such data folder; make it with"):
        check_data_folder(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="holds no dict"):
        check_data_folder(str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dict.en.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=f"holds no dict.*; give {tmp_path}/bin$"):
        check_data_folder(str(tmp_path))
    (tmp_path / "dict.en.txt").write_text("a 1\n")
    with pytest.raises(UserError, match="second: no such data folder"):
        check_data_folder(f"{tmp_path}:{tmp_path}/second")
    (tmp_path / "second").mkdir()  # as in fairseq, dictionaries come from the first folder
    assert check_data_folder(f"{tmp_path}:{tmp_path}/second") == tmp_path


def test_dictionaries_of_a_classifier_are_in_subfolders(tmp_path):
    (tmp_path / "label").mkdir()
    (tmp_path / "label/dict.txt").write_text("a 1\n")
    with pytest.raises(UserError, match="holds no dict"):
        check_data_folder(tmp_path)
    assert check_data_folder(tmp_path, ("dict*.txt", "*/dict.txt")) == tmp_path
