"""A missing library ends in one line that says what to install, before the data are run."""

import importlib.util

import pytest

from diverse_mha.analysis.command import check_libraries
from diverse_mha.common.errors import UserError


def test_missing_libraries_are_named_as_pip_knows_them(monkeypatch):
    check_libraries()
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("sklearn", "jinja2") else find(name),
    )
    with pytest.raises(
        UserError, match="need scikit-learn, jinja2: pip install scikit-learn jinja2"
    ):
        check_libraries()
