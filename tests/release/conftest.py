"""Fixtures of the release tests."""

from pathlib import Path

import pytest

from tests.release.demo_runs import prepare_all


@pytest.fixture(scope="session")
def demo_data(tmp_path_factory) -> Path:
    """Folder with the demo corpus for translation, language modelling and classification."""
    folder = tmp_path_factory.mktemp("demo")
    prepare_all(folder)
    return folder
