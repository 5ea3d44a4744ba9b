"""docs/errors.md quotes messages of other packages verbatim."""

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


def test_argparse_rejects_union_types_as_not_callable():
    """In Python 3.14 the types of fairseq's options are unions."""
    with pytest.raises((ValueError, TypeError)) as error:
        argparse.ArgumentParser().add_argument("--x", type=str | None)
    assert str(error.value) == "str | None is not callable"
    assert str(error.value).replace("|", "\\|") in PAGE
