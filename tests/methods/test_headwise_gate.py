"""The headwise gate equals a slow reference; its effect and options in models."""

import math

import pytest
import torch

from diverse_mha.methods.headwise_gate import HeadwiseGate
from tests.toy import build_ours, toy_batch

C, H = 6, 3
EVERYWHERE = {f"aggregation_{name}_layers": "all" for name in ("encoder", "cross", "decoder")}


def gated(**options):
    return build_ours(aggregation="headwise-gate", **EVERYWHERE, **options)


def slow(module, heads, layer_input) -> list[float]:
    """Return the output of Qiu et al. 2025 for one position. Vectors are lists of C numbers."""
    size = len(heads) // H
    scaled = []
    for h in range(H):
        score = sum(w * x for w, x in zip(module.gate.weight[h].tolist(), layer_input, strict=True))
        gate = 1 / (1 + math.exp(-score))
        scaled += [gate * x for x in heads[h * size : (h + 1) * size]]
    rows = zip(module.weight.tolist(), module.bias.tolist(), strict=True)
    return [sum(w * x for w, x in zip(row, scaled, strict=True)) + b for row, b in rows]


def example():
    torch.manual_seed(1)
    module = HeadwiseGate(C, H).double()
    torch.nn.init.normal_(module.bias)
    return module, *torch.randn(2, 4, 5, C, dtype=torch.float64).requires_grad_()


def test_gate_equals_the_equation_number_by_number():
    module, heads, layer_input = example()
    result = module(heads, layer_input)
    for b in range(4):
        for t in range(5):
            expected = slow(module, heads[b, t].tolist(), layer_input[b, t].tolist())
            torch.testing.assert_close(result[b, t].tolist(), expected, rtol=1e-9, atol=1e-12)


def test_gradients_pass_gradcheck():
    module, heads, layer_input = example()
    names = [name for name, _ in module.named_parameters()]
    assert names == ["weight", "bias", "gate.weight"]

    def call(x, y, *parameters):
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x, y))

    given = (heads[:1, :2], layer_input[:1, :2], *module.parameters())
    assert torch.autograd.gradcheck(call, [x.detach().requires_grad_() for x in given])


def test_gates_of_one_half_and_doubled_weights_equal_plain_attention():
    plain, ours = build_ours().double().eval(), gated().double().eval()
    missing = ours.load_state_dict(plain.state_dict(), strict=False)
    assert len(missing.missing_keys) == 6 and not missing.unexpected_keys
    assert all(name.endswith("out_proj.gate.weight") for name in missing.missing_keys)
    for module in ours.modules():
        if isinstance(module, HeadwiseGate):
            torch.nn.init.zeros_(module.gate.weight)  # every gate is 1/2
            module.weight.data *= 2
    batch = toy_batch()["net_input"]
    torch.testing.assert_close(ours(**batch)[0], plain(**batch)[0])


def test_invalid_options_of_the_headwise_gate_are_refused():
    with pytest.raises(ValueError, match="--aggregation headwise-gate is used in no layer"):
        build_ours(aggregation="headwise-gate")
    with pytest.raises(ValueError, match="--routing-iterations 2 has no effect with --aggregation"):
        gated(routing_iterations=2)
    with pytest.raises(ValueError, match="num_heads is 0; expected a whole number, 1 or more"):
        HeadwiseGate(C, 0)
    with pytest.raises(ValueError, match=f"num_heads {C - 1} does not divide embed_dim {C}"):
        HeadwiseGate(C, C - 1)
