"""Mapping lines over processes."""

import functools
import os
import signal

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.processes import ended_in_order
from diverse_mha.corpora import parallel_map
from diverse_mha.corpora.text import read_lines, write_lines


def make_marker(mark):
    return lambda line: mark + line


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("lines", [0, 1, 25])
def test_order_and_number_are_kept(tmp_path, monkeypatch, workers, lines):
    monkeypatch.setattr(parallel_map, "CHUNK", 4)
    write_lines(tmp_path / "in", map(str, range(lines)))
    make = functools.partial(make_marker, "-")
    count = parallel_map.map_file(
        make, tmp_path / "in", tmp_path / "out", workers=workers, label="mark"
    )
    assert count == lines
    assert list(read_lines(tmp_path / "out")) == [f"-{n}" for n in range(lines)]


def make_refusing():
    raise UserError("no subword is that frequent")


def make_dying(number):
    """As by the kernel when there is no memory left."""
    return lambda line: os.kill(os.getpid(), number) if line == "9" else line


KILLED = r"^mark: a process was killed \(out of memory\?\); give fewer --workers"


@pytest.mark.parametrize(
    "make, message",
    [
        (make_refusing, "^no subword is that frequent$"),
        (functools.partial(make_dying, signal.SIGKILL), KILLED),
        (functools.partial(make_dying, signal.SIGTERM), KILLED),
    ],
)
def test_a_process_that_cannot_work_ends_it_all(tmp_path, monkeypatch, make, message):
    monkeypatch.setattr(parallel_map, "CHUNK", 4)
    write_lines(tmp_path / "in", map(str, range(60)))
    with pytest.raises(UserError, match=message), ended_in_order():
        parallel_map.map_file(make, tmp_path / "in", tmp_path / "out", workers=2, label="mark")
