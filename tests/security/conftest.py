"""The folder of good and broken files that tests/bad_input uses, and files that mean harm."""

from tests.analysis.conftest import data, pairs, save  # noqa: F401 (fixtures)
from tests.bad_input.conftest import whole, world  # noqa: F401 (fixtures)
