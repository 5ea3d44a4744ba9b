"""Averages of checkpoints: their values and the choice of files."""

import pytest
import torch

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation import average


def write(path, weight, *, count=0, dtype=torch.float32, **extra):
    """Write a checkpoint with two parameters and a counter."""
    model = {
        "w": torch.tensor(weight, dtype=dtype),
        "b": torch.zeros(1, dtype=dtype),
        "n": torch.tensor(count),
    }
    state = {
        "model": model,
        "cfg": {"model": {"_name": "m"}},
        "args": None,
        "extra_state": {
            "train_iterator": {"epoch": 3},
            "ema": {"w": torch.ones(2)},
            "ExactTranslationTask": {"fp32_params": [torch.ones(9)], "scaler": {}},
        },
        "optimizer_history": [{"num_updates": count}],
        "last_optimizer_state": {"state": {0: torch.ones(9)}},
        "task_state": {"ExactTranslationTask": {"fp32_params": [torch.ones(9)]}},
    }
    torch.save(state | extra, path)
    return path


def test_parameters_are_averaged_and_counters_kept(tmp_path):
    weights = [[1.0, 2.0], [3.0, -2.0], [5.0, 3.0]]
    paths = [write(tmp_path / f"{i}.pt", weights[i], count=i) for i in range(3)]
    state = average.average_checkpoints(paths)
    torch.testing.assert_close(state["model"]["w"], torch.tensor([3.0, 1.0]))
    assert state["model"]["n"] == 2, "counters come from the last checkpoint"
    assert state["optimizer_history"] == [{"num_updates": 2}]
    assert state["cfg"] == {"model": {"_name": "m"}}
    assert state["last_optimizer_state"] is None
    assert state["task_state"] == {}, "float32 weights are dropped: they would override the average"
    # The average replaces the model's weights; EMA and float32 weights are dropped.
    assert state["extra_state"] == {
        "train_iterator": {"epoch": 3},
        "made_by": "average",
        "averaged_from": ["0.pt", "1.pt", "2.pt"],
    }


def test_half_precision_is_summed_in_double(tmp_path):
    # In float16, 2048 + 1 is 2048, so a running sum would lose every 1.
    values = [2048.0, 1.0, 1.0, 2.0]
    paths = [
        write(tmp_path / f"{i}.pt", [value], dtype=torch.float16) for i, value in enumerate(values)
    ]
    weight = average.average_checkpoints(paths)["model"]["w"]
    assert weight.dtype == torch.float16
    assert weight.item() == sum(values) / 4 == 513


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tied_weights_are_averaged_once(tmp_path, dtype):
    paths = []
    for value in (1.0, 3.0):
        paths.append(write(tmp_path / f"{value}.pt", [value], dtype=dtype))
        state = torch.load(paths[-1])
        state["model"]["tied"] = state["model"]["w"]
        torch.save(state, paths[-1])
    model = average.average_checkpoints(paths)["model"]
    assert model["w"].item() == model["tied"].item() == 2.0


def test_average_writes_a_checkpoint_and_no_other_file(tmp_path, capsys):
    paths = [str(write(tmp_path / f"{i}.pt", [float(i)])) for i in range(2)]
    output = tmp_path / "new" / "mean.pt"
    assert cli.run(["average", "--output", str(output), *paths]) == 0
    assert [path.name for path in output.parent.iterdir()] == ["mean.pt"]
    assert average.open_state(output)["model"]["w"].item() == 0.5
    assert "0.pt, 1.pt" in capsys.readouterr().out


def test_newest_epoch_checkpoints_are_in_numerical_order(tmp_path):
    for epoch in range(8, 12):
        write(tmp_path / f"checkpoint{epoch}.pt", [float(epoch)])
    for other in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint_2_500.pt"):
        write(tmp_path / other, [0.0])
    found = average.newest_checkpoints(tmp_path, 3)
    assert [path.name for path in found] == ["checkpoint9.pt", "checkpoint10.pt", "checkpoint11.pt"]


@pytest.mark.parametrize(
    ("names", "by", "cure"),
    [
        (["checkpoint_1_5.pt", "checkpoint_1_10.pt"], "epoch", "give --by update"),
        (["checkpoint1.pt", "checkpoint2.pt"], "update", "give --by epoch"),
        (["checkpoint1.pt", "checkpoint_1_5.pt", "checkpoint_1_10.pt"], "epoch",
         "give --last 1, or train longer, or give --by update"),
        (["checkpoint1.pt", "checkpoint_1_5.pt"], "epoch", "give --last 1, or train longer"),
        (["checkpoint_1_5.pt"], "epoch", "train with checkpoint.no_epoch_checkpoints=false"),
    ],
)  # fmt: skip
def test_too_few_checkpoints_are_answered_with_what_there_is(tmp_path, names, by, cure):
    for name in names:
        write(tmp_path / name, [0.0])
    with pytest.raises(UserError, match=f"--last 2: only . files? checkpoint.*; {cure}$"):
        average.newest_checkpoints(tmp_path, 2, by)


def test_newest_update_checkpoints_are_in_numerical_order(tmp_path):
    for name in ("checkpoint_1_500.pt", "checkpoint_2_1000.pt", "checkpoint_2_1500.pt"):
        write(tmp_path / name, [0.0])
    found = average.newest_checkpoints(tmp_path, 2, "update")
    assert [path.name for path in found] == ["checkpoint_2_1000.pt", "checkpoint_2_1500.pt"]
