"""Batches of several processes, and the choice of float32 or bfloat16."""

import pytest
import torch

from diverse_mha.common.errors import UserError
from diverse_mha.recipes.machine import choose_precision, processes_of, share_batches
from diverse_mha.recipes.recipe import read_recipe
from diverse_mha.training.train import RecipeJob, start
from diverse_mha.training.worker import precision_before


@pytest.mark.parametrize(
    ("processes", "shares", "note"),
    [
        (1, None, ""),
        (4, [2], "batch: 8 batches per update, 2 in each of 4 processes"),
        (3, [3], "batch: 9 batches per update instead of the recipe's 8, which 3 processes"),
        (16, [1], "batch: 16 batches per update instead of the recipe's 8, which 16 processes"),
    ],
)
def test_processes_share_the_batches_of_an_update(processes, shares, note):
    changes, line = share_batches(read_recipe("wmt14_en_de"), processes)
    assert changes == ({"optimization.update_freq": shares} if shares else {})
    assert line.startswith(note) and bool(note) == bool(line)


@pytest.mark.parametrize("sign", ["", "++"])
def test_update_freq_on_the_command_line_is_the_batch_of_all_processes(sign):
    """Three processes must not train three times the batch that the user names."""
    recipe = read_recipe("wmt14_en_de", [f"{sign}optimization.update_freq=[6]"])
    assert share_batches(recipe, 3)[0] == {"optimization.update_freq": [2]}


def test_every_value_of_update_freq_is_divided(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("task: {data: x}\noptimization: {update_freq: [4, 2]}\n")
    changes, note = share_batches(read_recipe(recipe), 2)
    assert changes == {"optimization.update_freq": [2, 1]} and "4, then 2 batches" in note


@pytest.mark.parametrize("value", ["4", "'4,2'", "[0]", "[a]", "${common.seed}", "[1.5]", "[-1]"])
def test_another_value_of_update_freq_is_refused_in_one_line(value, tmp_path):
    recipe = tmp_path / "mine.yaml"
    text = f"task: {{data: x}}\ncommon: {{seed: 4}}\noptimization:\n  update_freq: {value}\n"
    recipe.write_text(text)
    with pytest.raises(UserError, match=r"mine.yaml: optimization.update_freq=.*") as caught:
        start(RecipeJob(read_recipe(recipe)))
    assert "\n" not in str(caught.value)
    assert share_batches(read_recipe(recipe, ["optimization.update_freq=[3]"]), 1) == ({}, "")


@pytest.mark.parametrize("value", ["two", "1.5"])
def test_a_number_of_processes_that_is_none_is_refused_in_one_line(value):
    word = f"distributed_training.distributed_world_size={value}"
    with pytest.raises(UserError, match=f"^{word}: Value "):
        start(RecipeJob(read_recipe("demo", [word])))


def test_the_number_of_processes_is_as_asked_then_as_in_the_recipe():
    word = "distributed_training.distributed_world_size=3"
    assert processes_of(read_recipe("demo", [word])) == 3
    assert processes_of(read_recipe("demo", [word]), 2) == 2
    assert processes_of(read_recipe("demo", ["common.cpu=true"])) == 1


def _chosen(monkeypatch, folder, *words, bfloat16="0"):
    monkeypatch.setenv("DIVERSE_MHA_BFLOAT16", bfloat16)
    places = [f"checkpoint.save_dir={folder}", "common.cpu=true"]
    recipe = read_recipe("multi30k_small", [*places, *words])
    return choose_precision(recipe, precision_before(recipe))


def test_a_recipe_trains_in_float32_where_bfloat16_is_emulated(monkeypatch, tmp_path):
    changes, note = _chosen(monkeypatch, tmp_path)
    assert changes == {"common.bf16": False} and note.startswith("precision: float32, as this proc")
    assert _chosen(monkeypatch, tmp_path, bfloat16="1") == ({}, "precision: bfloat16")
    assert _chosen(monkeypatch, tmp_path, "common.bf16=true") == ({}, "")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("processor", ["0", "1"])
def test_a_resumed_run_keeps_its_precision(monkeypatch, tmp_path, before, processor):
    state = {"model": {"w": torch.zeros(1)}, "cfg": {"common": {"bf16": before}}}
    torch.save(state, tmp_path / "checkpoint_last.pt")
    changes, note = _chosen(monkeypatch, tmp_path, bfloat16=processor)
    assert changes == {"common.bf16": before}
    assert note.startswith(
        f"precision: {'bfloat16' if before else 'float32'}, as in the checkpoint"
    )


def test_fp16_without_a_gpu_is_refused_before_training(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="common.fp16=true: needs a GPU"):
        _chosen(monkeypatch, tmp_path, "common.fp16=true")
