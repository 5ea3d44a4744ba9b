"""What the tests of the tables share."""

import pytest

from experiments.experiments import Experiment
from experiments.plan import plan
from experiments.steps import Environment, data_folder

#: What a training leaves that has not ended.
LOG = '{"epoch": 1, "ups": "2.0", "num_updates": "5"}\n' * 2


@pytest.fixture
def place(tmp_path):
    return Environment(out=tmp_path / "out", data=tmp_path / "data")


@pytest.fixture
def runs(place):
    """Four runs, and the data that they are trained on."""
    methods = ("baseline", "drophead", "hsic", "orthogonality")
    found = [plan(Experiment("ptb", method=method), "smoke") for method in methods]
    data = data_folder(found[0], place)
    data.mkdir(parents=True)
    (data / "dict.txt").write_text("a 1\n")
    return found
