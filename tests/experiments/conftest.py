"""What the tests of the tables share."""

import pytest

from experiments.steps import Environment


@pytest.fixture
def place(tmp_path):
    return Environment(out=tmp_path / "out", data=tmp_path / "data")
