"""Safe loading: what may be in a checkpoint, and what may not."""

import argparse
import os

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

from diverse_mha import compat


def test_plain_values_of_fairseqs_checkpoints_load(tmp_path):
    state = {
        "args": argparse.Namespace(arch="transformer"),
        "model": {"weight": torch.ones(2)},
        "meters": {"bleu": np.array([1.5, 2.0]), "best": np.float64(3.0)},
    }
    torch.save(state, tmp_path / "checkpoint.pt")
    loaded = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert loaded["args"].arch == "transformer"
    assert loaded["meters"]["best"] == 3.0


def test_nothing_that_runs_code_is_listed():
    functions = [item for item in compat.plain_classes() if not isinstance(item, type)]
    names = {getattr(item, "__name__", str(item)) for item in functions}
    assert names <= {"_reconstruct", "scalar", "typing.Any", "Any"}


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


@pytest.mark.parametrize(
    "content,message",
    [(b"PK\x03\x04 cut", "cut off or not a checkpoint"), (b"", "cut off or not a checkpoint")],
)
def test_a_broken_file_is_named(content, message, tmp_path):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_checkpoint_that_runs_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"args": Bomb()}, "checkpoint.pt")
    with pytest.raises(ValueError, match="could run code; refused"):
        checkpoint_utils.load_checkpoint_to_cpu("checkpoint.pt")
    assert not (tmp_path / "exploded").exists()


def test_importing_twice_wraps_once():
    before = checkpoint_utils.load_checkpoint_to_cpu
    compat.name_checkpoint_errors()
    assert checkpoint_utils.load_checkpoint_to_cpu is before
