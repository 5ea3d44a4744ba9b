"""Files that are there whole or not at all."""

import pytest

from diverse_mha.common.files import whole_file


def test_a_file_gets_its_name_when_it_is_complete(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with whole_file(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(error, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(error), whole_file(path) as file:
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
