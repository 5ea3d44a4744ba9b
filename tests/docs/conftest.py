"""The world that the pages' clones are taken from, shared by the processes of pytest-xdist."""

import os

import pytest

from tests.docs.clone import World


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> World:
    base = tmp_path_factory.getbasetemp()
    return World((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "documentation")
