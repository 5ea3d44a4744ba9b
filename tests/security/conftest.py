"""Fixtures of tests/bad_input: a folder with valid and broken files."""

from tests.analysis.conftest import data, pairs, save  # noqa: F401 (fixtures)
from tests.bad_input.conftest import whole, world  # noqa: F401 (fixtures)
