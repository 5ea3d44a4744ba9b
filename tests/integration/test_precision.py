"""Half precision trains: a short run in each ends near the run in float32."""

import pytest
import torch

from tests.reliability import miniature, resume
from tests.reliability.runs import words

pytestmark = pytest.mark.integration

HALF = {
    "bf16": ["--bf16"],
    "memory-efficient-bf16": ["--memory-efficient-bf16"],
    "fp16": ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", 4],
}


@pytest.mark.parametrize("arch", ["transformer_routing", "sentence_classifier"])
def test_half_precision_ends_near_float32(arch, tmp_path):
    miniature.write_all(tmp_path)
    losses, weights = {}, {}
    for name, options in {"float32": [], **HALF}.items():
        save_dir = tmp_path / name
        run = words(arch, tmp_path, save_dir, "--max-update", 30, *options)
        run += ["--no-epoch-checkpoints", "--lr", "3e-3"]
        last, _ = resume.whole_run(run, save_dir)
        assert all(value.isfinite().all() for value in last["model"].values()), name
        losses[name], weights[name] = last["extra_state"]["val_loss"], last["model"]
    for name in HALF:
        assert losses[name] == pytest.approx(losses["float32"], rel=0.05), name
        pairs = zip(weights[name].values(), weights["float32"].values(), strict=True)
        assert not all(torch.equal(a, b) for a, b in pairs), f"{name} was not used"
