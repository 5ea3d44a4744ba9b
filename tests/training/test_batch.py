"""Dividing the batch of a recipe among processes."""

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.training import batch, train


def job(*words):
    return train.parse(["--config", "wmt14_en_de", *words])


@pytest.mark.parametrize(
    ("processes", "shares", "note"),
    [
        (1, [8], ""),
        (4, [2], "batch: 8 batches per update, 2 in each of 4 processes"),
        (3, [3], "batch: 9 batches per update instead of the recipe's 8, which 3 processes"),
        (16, [1], "batch: 16 batches per update instead of the recipe's 8, which 16 processes"),
    ],
)
def test_processes_share_the_batches_of_an_update(processes, shares, note):
    found, line = batch.divide(job(), processes)
    assert found == shares and line.startswith(note) and bool(note) == bool(line)
    words, same = batch.choose(job("--processes", str(processes)))
    assert words == ([f"++optimization.update_freq=[{shares[0]}]"] if note else []) and same == line


@pytest.mark.parametrize("sign", ["", "++"])
def test_update_freq_on_the_command_line_is_kept(sign):
    assert batch.divide(job(f"{sign}optimization.update_freq=[5]"), 4) == ([5], "")
    assert batch.choose(job("--processes", "4", f"{sign}optimization.update_freq=[5]")) == ([], "")


def test_every_value_of_update_freq_is_divided(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("task: {data: x}\noptimization: {update_freq: [4, 2]}\n")
    asked = train.parse(["--config", str(recipe), "--processes", "2"])
    words, note = batch.choose(asked)
    assert words == ["++optimization.update_freq=[2,1]"] and "4, then 2 batches" in note


@pytest.mark.parametrize("value", ["4", "'4,2'", "[0]", "[a]", "${common.seed}", "[1.5]"])
def test_another_value_of_update_freq_is_refused_in_one_line(value, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"task: {{data: x}}\noptimization:\n  update_freq: {value}\n")
    asked = train.parse(["--config", str(recipe)])
    with pytest.raises(UserError, match=r"mine.yaml: \S*update_freq=.*; give it as \[4\]"):
        batch.choose(asked)
    words = ["--config", str(recipe), "optimization.update_freq=[3]"]
    assert batch.divide(train.parse(words), 1) == ([3], "")


def test_a_number_of_processes_that_only_hydra_knows_is_refused_in_one_line():
    word = "++distributed_training.distributed_world_size=${oc.env:N}"
    with pytest.raises(UserError, match="distributed_world_size=.*: give a whole number"):
        batch.processes_of(job(word))
