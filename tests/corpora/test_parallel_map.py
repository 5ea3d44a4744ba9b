"""Mapping lines over processes."""

import functools

import pytest

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
