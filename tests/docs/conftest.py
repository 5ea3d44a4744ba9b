"""Data and models that pages require, made once for all test processes."""

from pathlib import Path

import pytest

from results import archive
from tests.docs.clone import World
from tests.shared import base_folder


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> World:
    return World(base_folder(tmp_path_factory) / "documentation")


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """Folder into which all published runs are unpacked."""
    folder = tmp_path_factory.mktemp("published")
    archive.unpack(folder)
    return folder
