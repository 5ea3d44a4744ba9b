"""The world that the pages' clones are taken from, shared by the processes of pytest-xdist."""

import os
from pathlib import Path

import pytest

from results import archive
from tests.docs.clone import World


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> World:
    base = tmp_path_factory.getbasetemp()
    return World((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "documentation")


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """The folder of all published runs."""
    folder = tmp_path_factory.mktemp("published")
    archive.unpack(folder)
    return folder
