"""Messages on docs/errors.md are those that the installed packages print."""

import argparse
import importlib
import inspect

import pytest

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/errors.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("message", "module"),
    [
        ("wandb not found, pip install wandb", "fairseq.logging.progress_bar"),
        ("Torch not compiled with CUDA enabled", "torch.cuda"),
        ("Weights only load failed", "torch.serialization"),
    ],
)
def test_messages_are_in_the_sources(message, module):
    assert message in PAGE
    assert message in inspect.getsource(importlib.import_module(module))


def test_argparse_calls_a_union_not_callable():
    """As fairseq's options are unions in Python 3.14."""
    with pytest.raises((ValueError, TypeError)) as error:
        argparse.ArgumentParser().add_argument("--x", type=str | None)
    assert str(error.value) == "str | None is not callable"
    assert str(error.value).replace("|", "\\|") in PAGE
