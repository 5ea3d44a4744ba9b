"""FusedAdam equals fairseq's Adam up to rounding; each loads the state of the other."""

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import Adam
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from diverse_mha.optim.fused_adam import FairseqAdam, FusedAdam, FusedAdamConfig


def parameters(dtype):
    torch.manual_seed(0)
    made = [torch.randn(shape, dtype=dtype) for shape in ((64, 32), (7,), (100,))]
    return [one.clone().requires_grad_() for one in made]


def step(optimizer, update):
    torch.manual_seed(update)
    for number, one in enumerate(optimizer.param_groups[0]["params"]):
        one.grad = torch.randn_like(one) * (1e-3 if update % 2 else 1)
        if number == 1 and update < 50:
            one.grad = None  # unused so far; steps are counted for each parameter
    optimizer.step()


@pytest.mark.parametrize("weight_decay", [0, 0.1])
@pytest.mark.parametrize(("dtype", "apart"), [(torch.float64, 1e-14), (torch.float32, 1e-5)])
def test_a_hundred_updates_equal_those_of_fairseqs_adam(dtype, apart, weight_decay):
    """Epsilon is large, to show that it is added before the bias correction, as in fairseq."""
    options = {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-3, "weight_decay": weight_decay}
    ours, theirs = parameters(dtype), parameters(dtype)
    fused, stock = FusedAdam(ours, **options), Adam(theirs, **options)
    for update in range(100):
        if update == 60:  # each optimizer loads the state of the other
            states = fused.state_dict(), stock.state_dict()
            fused.load_state_dict(states[1])
            stock.load_state_dict(states[0])
        step(fused, update)
        step(stock, update)
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max() < apart
    assert fused.state_dict()["state"][1]["step"] == 50


class Copies(TorchDispatchMode):
    """Counts copies, zeroings and norms of single tensors."""

    found = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        self.found += name in ("copy_", "_to_copy", "zero_", "zeros_like", "linalg_vector_norm")
        return function(*args, **(kwargs or {}))


def half_precision_updates(together, monkeypatch):
    """Make three updates in bfloat16, copying all tensors in one call if ``together``.

    Return parameters and gradient norms, and the number of single copies in the last update.
    """
    monkeypatch.setattr(FairseqAdam, "takes_all_at_once", together)
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.optimizer = FusedAdamConfig(adam_betas=(0.9, 0.98), lr=[0.1])
    cfg.optimizer._name, cfg.common.bf16 = "fused_adam", True
    cfg.optimization.update_freq = [1]
    half = [one.detach().bfloat16().requires_grad_() for one in parameters(torch.float32)]
    half.append(torch.ones(3, dtype=torch.bfloat16, requires_grad=False))
    optimizer, norms = FP16Optimizer.build_optimizer(cfg, half), []
    for update in range(3):
        with Copies() as copies:
            optimizer.zero_grad()
        used = half[:2] if update == 1 else half[:3]  # the third has no gradient in update 1
        optimizer.backward(sum((one * one).sum() for one in used))
        with copies:
            optimizer.multiply_grads(0.5)
            norms.append(optimizer.clip_grad_norm(2.0))
            optimizer.step()
    return [*half, *optimizer.fp32_params, *norms], copies.found


def test_half_precision_parameters_are_copied_in_one_call_with_equal_bits(monkeypatch):
    ours, few = half_precision_updates(True, monkeypatch)
    theirs, many = half_precision_updates(False, monkeypatch)
    assert all(map(torch.equal, ours, theirs))
    assert few < many


def test_moments_in_half_precision_are_refused():
    assert not FusedAdam(parameters(torch.float32)).supports_memory_efficient_fp16
