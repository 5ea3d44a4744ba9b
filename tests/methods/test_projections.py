"""Projections, sink, elementwise gate and exclusive attention equal their equations.

Values and gradients are compared in float64.
"""

import math

import pytest
import torch

from diverse_mha.attention.core import lowest_bias
from diverse_mha.methods.exclusive import Exclusive
from diverse_mha.methods.headwise_gate import HeadwiseGate
from diverse_mha.methods.knocking_heads import KnockingHeads
from diverse_mha.methods.qk_norm import QKNorm
from diverse_mha.methods.sink import Sink
from diverse_mha.methods.value_residual import ValueResidual
from diverse_mha.models.attention import DiverseAttention

B, H, T, D = 2, 3, 4, 5
EXACT = {"rtol": 1e-9, "atol": 1e-12}


def states(count=3, length=T):
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(count, B, H, length, D, generator=generator, dtype=torch.float64)
    return [x.clone().requires_grad_() for x in draw]


def moved(module):
    """Convert a module to float64 and add noise to its parameters, in place; return it."""
    generator = torch.Generator().manual_seed(1)
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.5 * torch.randn(p.shape, generator=generator, dtype=torch.float64))
    return module


def assert_equal(result, expected, leaves):
    torch.testing.assert_close(result, expected, **EXACT)
    along = torch.randn(
        result.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    got, want = (
        torch.autograd.grad(x, leaves, along, retain_graph=True, materialize_grads=True)
        for x in (result, expected)
    )
    torch.testing.assert_close(got, want, **EXACT)


def by_cell(function, *shape):
    """Return a tensor with the value of ``function`` at the indices of each cell."""
    cells = [
        function(*(int(i) for i in index))
        for index in torch.cartesian_prod(*map(torch.arange, shape))
    ]
    return torch.stack(cells).view(*shape, *cells[0].shape)


def test_qk_norm_logits_are_cosines_times_a_scale_for_each_head():
    q, k, v = states()
    seam = moved(QKNorm(H, D))
    keys, values = seam.keys_values(k, v, None)
    assert values is v
    logits = seam.queries(q) @ keys.transpose(-1, -2) / math.sqrt(D)

    def literal(b, h, t, s):
        x, y = q[b, h, t], k[b, h, s]
        return seam.scale[h] * (x @ y) / ((x @ x).sqrt() * (y @ y).sqrt())

    assert_equal(logits, by_cell(literal, B, H, T, T), [q, k, seam.scale])
    start = QKNorm(H, D).double()
    rms = [x / x.square().mean(-1, keepdim=True).sqrt() for x in (q, k)]
    keys, _ = start.keys_values(k, v, None)
    torch.testing.assert_close(
        start.queries(q) @ keys.transpose(-1, -2), rms[0] @ rms[1].transpose(-1, -2)
    )
    assert seam.queries(q * 0).isfinite().all()


def test_knocking_heads_equal_their_equation():
    q, k, v = states()
    seam = moved(KnockingHeads(D))
    keys, values = seam.keys_values(k, v, None)
    assert keys is k and seam.queries(q) is q
    literal = by_cell(
        lambda b, h, s, e: sum(v[b, h, s, d] * seam.shared[d, e] for d in range(D)), B, H, T, D
    )
    assert_equal(values, literal, [v, seam.shared])
    assert torch.equal(KnockingHeads(D).double().keys_values(k, v, None)[1], v)


def test_value_residual_adds_values_of_layer_1():
    first, k, v = states()
    seam = moved(ValueResidual())
    _, values = seam.keys_values(k, v, first)
    assert_equal(values, seam.own * v + seam.first * first, [v, first, seam.own, seam.first])
    assert torch.equal(ValueResidual().double().keys_values(k, v, first)[1], v)
    with pytest.raises(ValueError, match="needs the values of layer 1"):
        seam.keys_values(k, v, None)


@pytest.mark.parametrize("masked", [False, True])
def test_a_sink_is_a_further_key_without_a_value(masked):
    q, k, v = states()
    scores = q @ k.transpose(-1, -2)
    if masked:
        hidden = torch.arange(T) > 2
        scores = scores + torch.zeros(T, dtype=torch.float64).masked_fill(
            hidden, lowest_bias(torch.float64)
        )
    seam = moved(Sink(H))
    weights = seam.after_softmax(scores.softmax(-1), scores)
    beside = torch.cat([scores, seam.logit[:, None, None].expand(B, H, T, 1)], dim=-1)
    assert_equal(weights @ v, beside.softmax(-1)[..., :T] @ v, [q, k, v, seam.logit])


def test_exclusive_attention_equals_its_equation():
    y, v, _ = states()
    module = moved(Exclusive(H * D, H))
    merged = y.transpose(1, 2).flatten(2)

    def literal(b, t):
        heads = [
            y[b, h, t] - (y[b, h, t] @ v[b, h, t]) * v[b, h, t] / (v[b, h, t] @ v[b, h, t])
            for h in range(H)
        ]
        return module.weight @ torch.cat(heads) + module.bias

    result = module(merged, v)
    assert_equal(result, by_cell(literal, B, T), [y, v, *module.parameters()])
    assert torch.equal(
        module(merged, v * 0), torch.nn.functional.linear(merged, module.weight, module.bias)
    )


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1e-7, 1e-4, 1.0, 1e4])
def test_squares_and_lengths_stay_in_range_in_float16(scale, autocast):
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(2, B, H, T, 64, generator=generator).clamp(-4, 4)
    x, v = (z.half().requires_grad_() for z in scale * draw)
    exclusive, norm = Exclusive(H * 64, H), QKNorm(H, 64)

    def results(x, v):
        yield exclusive(x.transpose(1, 2).flatten(2), v)
        yield norm.queries(x)
        yield norm.keys_values(x, v, None)[0]

    expected = [y.detach() for y in results(x.float(), v.float())]
    if not autocast:
        exclusive.half(), norm.half()
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        found = list(results(x, v))
    for y, want in zip(found, expected, strict=True):
        torch.testing.assert_close(y.float(), want, rtol=1e-2, atol=1e-2 * max(scale, 1e-3))
        # Downstream gradients are of the size of the activations.
        gradients = torch.autograd.grad((1e-2 * scale * y.float()).sum(), [x, v], allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in gradients)


def test_an_elementwise_gate_scales_every_element():
    y, x, _ = states()
    y, x = (z.detach().transpose(1, 2).flatten(2).requires_grad_() for z in (y, x))
    module = moved(HeadwiseGate(H * D, H, elementwise=True))

    def literal(b, t):
        return module.weight @ (y[b, t] * torch.sigmoid(module.gate.weight @ x[b, t])) + module.bias

    assert_equal(module(y, x), by_cell(literal, B, T), [y, x, *module.parameters()])
    assert sum(p.numel() for p in module.parameters()) == 2 * (H * D) ** 2 + H * D


def test_head_states_are_recorded_after_projections():
    attention = DiverseAttention(
        H * D, H, self_attention=True, projections=moved(QKNorm(H, D))
    ).double()
    x = torch.randn(B, T, H * D, dtype=torch.float64)
    states = attention(x, None, wanted=("queries", "keys", "logits")).states
    torch.testing.assert_close(
        states.logits, states.queries @ states.keys.transpose(-1, -2) / math.sqrt(D), **EXACT
    )
    lengths = states.keys.norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), **EXACT)
