"""Fixtures for tests of tables, with a stand-in for their commands."""

import json

import pytest

from diverse_mha.common.errors import UserError
from experiments.papers import Experiment
from experiments.runs import Place, plan

#: Log of an unfinished training.
LOG = '{"epoch": 1, "ups": "2.0", "num_updates": "5"}\n' * 2
DONE = "done training in 3.0 seconds\n"


class Ended:
    """A finished command."""

    code = 0

    def ended(self):
        return True


class Stand:
    """Stand-in for the commands: a run writes a log and a score.

    A run fails if its folder's name contains ``failing``.
    """

    def __init__(self, failing="no such name"):
        self.started, self.failing = [], failing

    def __call__(self, step, log, jobs):
        self.started.append((step.name, log.parent.name))
        if step.name == "run":
            if self.failing in log.parent.name:
                raise UserError("run ended with exit code 1: why")
            with (log.parent / "train.log").open("a") as file:
                file.write(LOG)
            (log.parent / "test.json").write_text(json.dumps({"perplexity": 12.5}))
        return Ended()

    @property
    def names(self):
        return [name for name, _ in self.started]


@pytest.fixture
def start():
    return Stand()


@pytest.fixture
def place(tmp_path):
    return Place(out=tmp_path / "out", data=tmp_path / "data")


@pytest.fixture
def runs(place):
    """Four runs whose training data exists."""
    methods = ("baseline", "drophead", "hsic", "orthogonality")
    found = [plan(Experiment("ptb", method=method), "smoke") for method in methods]
    data = found[0].data(place)
    data.mkdir(parents=True)
    (data / "dict.txt").write_text("a 1\n")
    return found
