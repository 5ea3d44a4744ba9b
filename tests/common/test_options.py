"""Options and registries of methods."""

from dataclasses import make_dataclass

import pytest

from diverse_mha.common.options import Method, Registry, option


def _method(name, default=2, text="number of rounds"):
    options = make_dataclass("Options", [("rounds", int, option(default, text))])
    return Method(name, "", None, options)


@pytest.mark.parametrize("other", [{"default": 3}, {"text": "number of steps"}])
def test_methods_that_share_an_option_declare_the_same_default_and_help(other):
    registry = Registry()
    registry.register(_method("first"))
    with pytest.raises(ValueError, match="another method declares --rounds differently"):
        registry.register(_method("second", **other))
    registry.register(_method("second"))
    assert [f.name for f in registry.options()] == ["rounds"]
