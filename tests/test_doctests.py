"""The examples in the docstrings of the Python interface print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import diverse_mha.attention
import diverse_mha.hub
import diverse_mha.measures
import diverse_mha.methods

PACKAGES = (diverse_mha.attention, diverse_mha.hub, diverse_mha.measures, diverse_mha.methods)
MODULES = ["diverse_mha.common.options"] + sorted(
    found.name
    for package in PACKAGES
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if "triton" not in found.name  # imported where there is a GPU only
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert not doctest.testmod(module).failed


def test_there_are_examples():
    modules = map(importlib.import_module, MODULES)
    tests = [test for one in modules for test in doctest.DocTestFinder().find(one)]
    assert sum(bool(test.examples) for test in tests) >= 40
