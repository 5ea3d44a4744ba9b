"""Every family of models in half precision: no NaN, and a loss near that of float32.

The validation loss of every family in each precision is printed.
"""

import pytest
import torch

from tests.release.demo_runs import RUNS, training_command
from tests.reliability.children import Child, train
from tests.reliability.runs import HALF

pytestmark = pytest.mark.system

UPDATES = 200
PRECISIONS = {"float32": [], **HALF}
# Permitted relative difference of the validation loss from float32. Without a float32 copy of the
# weights, small updates are rounded away.
LIMITS = {"bf16": 0.02, "memory-efficient-bf16": 0.10, "fp16": 0.02, "memory-efficient-fp16": 0.05}


def narrow(arch: str) -> list:
    """Return options of a model with embedding dimension 32."""
    sides = ["encoder"] if arch.startswith("sentence") else ["decoder"]
    sides += ["encoder"] if arch.startswith("transformer") and "_lm_" not in arch else []
    return [
        word
        for side in sides
        for word in (f"--{side}-embed-dim", 32, f"--{side}-ffn-embed-dim", 64)
    ]


@pytest.mark.parametrize("arch", RUNS)
def test_validation_loss_in_half_precision_is_near_float32(arch, demo_data, tmp_path):
    losses = {}
    for name, options in PRECISIONS.items():
        save_dir = tmp_path / name
        options = [*narrow(arch), *options, "--lr", 3e-3, "--warmup-updates", 50]
        words = training_command(arch, demo_data, save_dir, *options, "--max-update", UPDATES)
        code, message = Child(train, words[3:]).result(3000)
        assert code == 0, f"{name}: {message}"
        state = torch.load(save_dir / "checkpoint_last.pt", weights_only=True)
        assert state["optimizer_history"][-1]["num_updates"] == UPDATES
        # fairseq's adaptive layers have _float_tensor, but do not use it.
        weights = {k: v for k, v in state["model"].items() if not k.endswith("._float_tensor")}
        assert all(value.isfinite().all() for value in weights.values()), name
        losses[name] = state["extra_state"]["val_loss"]
    reference = losses.pop("float32")
    off = {name: (loss - reference) / reference for name, loss in losses.items()}
    figures = ", ".join(f"{name} {losses[name]:.3f} ({100 * x:+.2f} %)" for name, x in off.items())
    print(f"\n{arch}: {UPDATES} updates, validation loss in float32 {reference:.3f}; {figures}")
    for name, x in off.items():
        assert abs(x) <= LIMITS[name], name
