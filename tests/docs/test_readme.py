"""The Python code of README runs as a reader would run it."""

import re

import pytest

from diverse_mha.common.files import ROOT

BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
)


def test_code_for_a_trainer_trains_with_a_term(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from tests.hub.models import build
    from tests.hub.test_trainer import arguments, rows, stack

    (code,) = (block for block in BLOCKS if "HeadTerms" in block)
    space = {"model": build("marian"), "arguments": arguments(tmp_path), "data": rows("marian")}
    space["stack"] = stack
    exec(code.replace("train_dataset=data", "train_dataset=data, data_collator=stack"), space)
    assert space["trainer"].state.log_history[0].keys() >= {"loss", "hsic", "diversity_loss"}


def test_code_for_torch_has_a_loss_that_moves_the_heads_apart():
    (code,) = (block for block in BLOCKS if "MultiheadAttention" in block)
    space = {}
    exec(code, space)
    space["loss"].backward()
    assert space["attention"].in_proj_weight.grad.abs().max() > 0
    assert space["states"].outputs.shape == (8, 4, 20, 16)
