"""Checkpoints with equal weights are named where each should be a model of its own."""

import pytest
import torch

from diverse_mha.evaluation import average
from diverse_mha.evaluation.equal_weights import equal_weights
from diverse_mha.evaluation.states import open_state


@pytest.fixture
def paths(tmp_path):
    """Three checkpoints; the weights of the last are those of the first."""
    paths = []
    for number, weight in enumerate((1.0, 2.0, 1.0)):
        paths.append(str(tmp_path / f"{number}.pt"))
        model = {"w": torch.full((2, 3), weight), "version": torch.zeros(1)}
        state = {"model": model, "extra_state": {"val_loss": number}}
        torch.save(state | {"last_optimizer_state": {0: torch.ones(number + 1)}}, paths[-1])
    return paths


def test_only_weights_decide_whether_checkpoints_are_equal(paths, tmp_path):
    assert list(equal_weights(paths)) == [(paths[2], paths[0])]
    assert list(equal_weights([paths[1], paths[1]])) == [(paths[1], paths[1])]
    state = open_state(paths[0])
    for number, model in enumerate(
        (
            {name: value.half() for name, value in state["model"].items()},
            {**state["model"], "more": torch.zeros(1)},
            {**state["model"], "w": torch.ones(3, 2)},
        )
    ):
        torch.save({"model": model}, tmp_path / f"other{number}.pt")
    others = [str(tmp_path / f"other{number}.pt") for number in range(3)]
    assert list(equal_weights([paths[0], *others])) == []


def test_an_average_names_weights_that_count_twice(paths, capsys):
    state = average.average_checkpoints(paths)
    assert float(state["model"]["w"][0, 0]) == pytest.approx(4 / 3), "they still count twice"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: {paths[2]} has the weights of {paths[0]}, which count twice")
    average.average_checkpoints(paths[:2])
    assert capsys.readouterr().err == ""
