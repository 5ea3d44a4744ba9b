"""One call for all parameters: fairseq's Adam to rounding, and its state."""

import pytest
import torch
from fairseq.optim.adam import Adam

from diverse_mha.optim.fused_adam import FusedAdam


def parameters(dtype):
    torch.manual_seed(0)
    made = [torch.randn(shape, dtype=dtype) for shape in ((64, 32), (7,), (100,))]
    return [one.clone().requires_grad_() for one in made]


def step(optimizer, update):
    torch.manual_seed(update)
    for number, one in enumerate(optimizer.param_groups[0]["params"]):
        one.grad = torch.randn_like(one) * (1e-3 if update % 2 else 1)
        if number == 1 and update < 50:
            one.grad = None  # unused so far: its steps are counted by themselves
    optimizer.step()


@pytest.mark.parametrize("weight_decay", [0, 0.1])
@pytest.mark.parametrize(("dtype", "apart"), [(torch.float64, 1e-14), (torch.float32, 1e-5)])
def test_a_hundred_updates_are_fairseqs(dtype, apart, weight_decay):
    """The large epsilon tells whether it is added before the bias correction, as in fairseq."""
    options = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-3, "weight_decay": weight_decay}
    ours, theirs = parameters(dtype), parameters(dtype)
    fused, stock = FusedAdam(ours, **options), Adam(theirs, **options)
    for update in range(100):
        if update == 60:  # each goes on with the other's state
            states = fused.state_dict(), stock.state_dict()
            fused.load_state_dict(states[1])
            stock.load_state_dict(states[0])
        step(fused, update)
        step(stock, update)
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max() < apart
    assert fused.state_dict()["state"][1]["step"] == 50


def test_averages_in_half_precision_are_refused():
    assert not FusedAdam(parameters(torch.float32)).supports_memory_efficient_fp16
