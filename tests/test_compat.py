"""Safe loading: what may be in a checkpoint, and what may not."""

import argparse
import os
import zipfile

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
    listed = [i[0] if isinstance(i, tuple) else i for i in compat.plain_classes()]
    functions = [item for item in listed if not isinstance(item, type)]
    names = {getattr(item, "__name__", str(item)) for item in functions}
    assert names <= {"_reconstruct", "scalar", "typing.Any", "Any"}


@pytest.mark.parametrize("folder", ["core", "_core"])
def test_checkpoints_of_either_numpy_load(folder, tmp_path):
    torch.save({"best": np.float64(3.0), "bleu": np.array([1.5])}, tmp_path / "new.pt")
    with (
        zipfile.ZipFile(tmp_path / "new.pt") as old,
        zipfile.ZipFile(tmp_path / "old.pt", "w") as renamed,
    ):
        for name in old.namelist():
            content = old.read(name)
            for spelling in (b"numpy._core.multiarray", b"numpy.core.multiarray"):
                content = content.replace(spelling, f"numpy.{folder}.multiarray".encode())
            renamed.writestr(name, content)
    loaded = torch.load(tmp_path / "old.pt", weights_only=True)
    assert loaded["best"] == 3.0 and loaded["bleu"][0] == 1.5


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


def test_a_whole_file_that_does_not_load_is_not_called_cut_off(tmp_path):
    torch.save({"extra_state": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="checkpoint.pt: cannot be loaded: KeyError"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint.pt"))


def test_importing_twice_wraps_once():
    before = checkpoint_utils.load_checkpoint_to_cpu
    compat.name_checkpoint_errors()
    assert checkpoint_utils.load_checkpoint_to_cpu is before
