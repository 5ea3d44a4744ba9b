"""Cascaded logits equal a slow reference of Zheng et al. 2021."""

import pytest
import torch
from torch import nn

from diverse_mha.methods.coda import CASCADES, build_cascade, chunked
from diverse_mha.methods.coda.cascade import INPUTS
from tests import reference_cascade as reference

EXACT = {"rtol": 1e-9, "atol": 1e-12}
SHAPES = [(2, 3, 4, 5), (1, 4, 1, 7), (3, 2, 5, 1), (1, 1, 3, 3)]
MASKS = ["none", "padding", "causal", "both", "heads", "all"]


def shape_id(shape):
    return "B{}-H{}-T{}-S{}".format(*shape)


def mask_of(name, shape):
    bsz, num_heads, tgt_len, src_len = shape
    if name == "none":
        return None
    padding = torch.zeros(bsz, 1, 1, src_len, dtype=torch.bool)
    padding[-1, ..., (src_len + 1) // 2 :] = True
    causal = torch.ones(tgt_len, src_len, dtype=torch.bool).triu(1)
    if name == "heads":
        generator = torch.Generator().manual_seed(2)
        return torch.rand(shape, generator=generator) < 0.3
    masks = {"padding": padding, "causal": causal, "both": padding | causal}
    return masks.get(name, torch.ones(1, 1, 1, 1, dtype=torch.bool))


def logits_of(shape, count=2, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn((count, *shape), generator=generator, dtype=torch.float64)
    return [x.to(dtype).requires_grad_() for x in draw]


def cascade_of(kind, num_heads, dtype=torch.float64, seed=1, **options):
    """Return a cascade with non-zero biases."""
    torch.manual_seed(seed)
    cascade = build_cascade(kind, num_heads, **options)
    for p in cascade.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, std=0.3)
    return cascade.to(dtype)


def plain_torch(cascade, logits, previous, masked=None):
    """Return the logits of a network cascade, computed in plain torch without chunks."""
    shut = torch.zeros_like(logits, dtype=torch.bool) if masked is None else masked
    x = (logits + previous).masked_fill(shut, 0.0)
    return (x + cascade.network(x)).masked_fill(shut, 0.0)


def gradients(result, inputs, seed=3):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    return torch.autograd.grad(result, inputs, weights.to(result.dtype), materialize_grads=True)


# Equality with the slow reference.


@pytest.mark.parametrize("network_input", INPUTS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_network_cascade_equals_the_reference_of_zheng2021(shape, mask, network_input):
    logits, previous = logits_of(shape)
    masked = mask_of(mask, shape)
    cascade = cascade_of("mlp", shape[1], hidden_ratio=2, network_input=network_input)
    inputs = [logits, previous, *cascade.parameters()]
    layers = [(layer.weight, layer.bias) for layer in cascade.network.layers]
    form = {"kind": "mlp", "layers": layers, "network_input": network_input}
    expected = reference.cascade(logits, previous, masked, **form)
    result = cascade(logits, previous, masked)
    torch.testing.assert_close(result, expected, **EXACT)
    torch.testing.assert_close(gradients(result, inputs), gradients(expected, inputs), **EXACT)


@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", CASCADES)
def test_every_kind_of_cascade_equals_the_reference_of_zheng2021(kind, mask, first):
    shape = SHAPES[0]
    logits, previous = logits_of(shape)
    previous = None if first else previous
    masked = mask_of(mask, shape)
    cascade = cascade_of(kind, shape[1], hidden_ratio=1, depth=1, noise=1.0).eval()
    layers = []
    if kind == "mlp":
        layers = [(layer.weight, layer.bias) for layer in cascade.network.layers]
    expected = reference.cascade(logits, previous, masked, kind=kind, layers=layers)
    result = cascade(logits, previous, masked)
    torch.testing.assert_close(result, expected, **EXACT)
    (got,), (want,) = gradients(result, [logits]), gradients(expected, [logits])
    torch.testing.assert_close(got, want, **EXACT)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("elements", [1, 7 * 12, 10**6], ids="chunk{}".format)
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (5, 4, 2, 2), (3, 4, 1, 1)], ids=shape_id)
def test_chunked_network_equals_plain_torch_for_any_depth_and_size(
    shape, elements, depth, monkeypatch
):
    monkeypatch.setattr(chunked, "CPU_CHUNK", elements)
    logits, previous = logits_of(shape)
    masked = mask_of("both", shape)
    cascade = cascade_of("mlp", shape[1], hidden_ratio=3, depth=depth)
    inputs = [logits, previous, *cascade.parameters()]
    result = cascade(logits, previous, masked)
    expected = plain_torch(cascade, logits, previous, masked)
    torch.testing.assert_close(result, expected, **EXACT)
    torch.testing.assert_close(gradients(result, inputs), gradients(expected, inputs), **EXACT)


@pytest.mark.parametrize(
    ("mask", "cells", "left"),
    [("none", None, False), ("padding", None, True), ("heads", None, True)]
    + [("causal", 21, False), ("both", 21, True)],
)
def test_cells_masked_in_all_sentences_and_heads_are_left_out(mask, cells, left):
    """A causal mask leaves 21 of 6 x 6 cells; padding masks some of them in one sentence."""
    x, *_ = logits_of((3, 2, 6, 6))
    mask = mask_of(mask, x.shape)
    for order in ([0, 1, 2], [2, 0, 1]):  # one sentence has padding
        some = mask[order] if mask is not None and len(mask) == 3 else mask
        open_cells, masked = chunked._open_cells(x, some)
        assert (None if open_cells is None else len(open_cells)) == cells
        assert (masked is not None) == left
    assert torch.equal(
        chunked._put(chunked._take(x, open_cells), open_cells, x.shape),
        x if cells is None else x.tril(),
    )


# Masked cells.


@pytest.mark.parametrize("garbage", [1e30, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", CASCADES)
def test_values_of_masked_cells_have_no_effect(kind, garbage):
    shape = (2, 3, 4, 5)
    masked = mask_of("both", shape)
    cascade = cascade_of(kind, 3, noise=1.0)
    parameters = list(cascade.parameters())
    results = []
    for fill in (0.0, garbage):
        inputs = [x.detach().masked_fill(masked, fill).requires_grad_() for x in logits_of(shape)]
        torch.manual_seed(5)
        result = cascade(*inputs, masked)
        weights = torch.ones_like(result).masked_fill(masked, fill)
        grads = torch.autograd.grad(result, [*inputs, *parameters], weights, materialize_grads=True)
        results.append([result.detach(), *grads])
    for clean, dirty in zip(*results, strict=True):
        assert dirty.isfinite().all()
        torch.testing.assert_close(dirty, clean, rtol=0, atol=0)
    for dirty in results[1][:3]:  # the result and the gradients of both inputs
        assert not dirty.masked_select(masked).any()


# Noise.


@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("kind", CASCADES)
def test_noise_has_mean_zero_and_the_given_standard_deviation(kind, first):
    """Standard errors for n = 80,000 draws are 0.7 / sqrt(n) and 0.7 / sqrt(2 n); 5 are allowed."""
    logits, previous = logits_of((2, 4, 100, 100))
    previous = None if first else previous
    cascade = cascade_of(kind, 4, noise=0.7)
    torch.manual_seed(6)
    noisy = cascade(logits, previous)
    noise = (noisy - cascade.eval()(logits, previous)).detach()
    count = noise.numel()
    assert abs(float(noise.mean())) < 5 * 0.7 / count**0.5
    assert abs(float(noise.std()) - 0.7) < 5 * 0.7 / (2 * count) ** 0.5


@pytest.mark.parametrize("kind", CASCADES)
def test_noise_does_not_change_the_gradient(kind):
    logits, previous = logits_of((2, 4, 3, 3))
    cascade = cascade_of(kind, 4, noise=1.0)
    inputs = [logits, previous, *cascade.parameters()]
    noisy = gradients(cascade(logits, previous), inputs)
    plain = gradients(cascade.eval()(logits, previous), inputs)
    torch.testing.assert_close(noisy, plain, **EXACT)


# Samples at evaluation.


@pytest.mark.parametrize("mask", ["none", "padding"])
@pytest.mark.parametrize("kind", CASCADES)
def test_weights_are_averaged_over_samples_of_the_whole_cascade(kind, mask):
    """The expected weights come from separate chains of two layers, with the same noise."""
    shape, count = (2, 3, 4, 5), 4
    masked = mask_of(mask, shape)
    first, second = (x.detach() for x in logits_of(shape))
    layers = [cascade_of("none", 3, noise=0.7, samples=count).eval()]
    layers.append(cascade_of(kind, 3, noise=0.7, samples=count).eval())
    torch.manual_seed(6)
    chains = layers[0](first, None, masked)
    logits = layers[1](second, chains, masked)
    assert logits.shape == (2, 3 * count, 4, 5)
    hidden = torch.zeros(shape, dtype=torch.bool) if masked is None else masked.expand(shape)
    weights = layers[1].average(logits.masked_fill(hidden.repeat(1, count, 1, 1), -1e9).softmax(-1))

    torch.manual_seed(6)
    noise = [0.7 * torch.randn((2, count, *shape[1:]), dtype=torch.float64) for _ in range(2)]
    network = layers[1].network.layers if kind == "mlp" else []
    form = {"kind": kind, "layers": [(layer.weight, layer.bias) for layer in network]}
    expected = 0.0
    for k in range(count):
        before = (first + noise[0][:, k]).masked_fill(hidden, 0.0)
        z = reference.cascade(second, before, masked, **form) + noise[1][:, k]
        expected = expected + z.masked_fill(hidden, -1e9).softmax(-1) / count
    torch.testing.assert_close(weights, expected, **EXACT)
    for layer in layers:
        assert layer.train()(first, None, masked).shape == shape


# Layouts and dtypes.


@pytest.mark.parametrize("kind", CASCADES)
def test_memory_layout_does_not_change_the_result(kind):
    shape = (2, 4, 5, 6)
    cascade = cascade_of(kind, 4, noise=1.0).eval()
    masked = mask_of("both", shape)
    expected = cascade(*logits_of(shape), masked)
    inputs = [
        x.detach().permute(3, 0, 2, 1).contiguous().permute(1, 3, 2, 0) for x in logits_of(shape)
    ]
    inputs = [x.requires_grad_() for x in inputs]
    assert not inputs[0].is_contiguous()
    result = cascade(*inputs, masked)
    torch.testing.assert_close(result, expected, **EXACT)
    plain = logits_of(shape)
    grads = torch.autograd.grad(result.sum(), inputs, materialize_grads=True)
    expected = torch.autograd.grad(cascade(*plain, masked).sum(), plain, materialize_grads=True)
    torch.testing.assert_close(grads, expected, **EXACT)


@pytest.mark.parametrize("kind", CASCADES)
@pytest.mark.parametrize("shape", [(0, 4, 3, 3), (2, 4, 0, 3), (2, 4, 3, 0)], ids=shape_id)
def test_empty_input_gives_empty_output(kind, shape):
    logits, previous = logits_of(shape)
    cascade = cascade_of(kind, 4, noise=1.0)
    result = cascade(logits, previous)
    assert result.shape == shape
    for grad in gradients(result, [logits, *cascade.parameters()]):
        assert not grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("autocast", [False, True], ids=["whole", "autocast"])
def test_half_precision_is_as_exact_as_plain_torch(dtype, autocast, monkeypatch):
    """Errors against float64 exceed those of plain torch by less than half of eps.

    Rounding can change the sign of a hidden value, and so the slope of LeakyReLU, in plain torch
    too.
    """
    shape = (2, 4, 7, 9)
    # Each chunk has one (query, key) pair. Sums over chunks must be rounded only once.
    monkeypatch.setattr(chunked, "CPU_CHUNK", 16)
    logits, previous = logits_of(shape, dtype=dtype)
    cascade = cascade_of("mlp", 4, dtype)
    double = cascade_of("mlp", 4, dtype).double()  # the same rounded parameters
    exact = [x.detach().double().requires_grad_() for x in (logits, previous)]
    expected = double(*exact)
    expected = [expected, *gradients(expected, [*exact, *double.parameters()])]
    if autocast:
        cascade.float()
    inputs = [logits, previous, *cascade.parameters()]
    errors = {}
    for form in (type(cascade).__call__, plain_torch):
        with torch.autocast("cpu", dtype=dtype, enabled=autocast):
            result = form(cascade, logits, previous)
        got = [result, *gradients(result, inputs)]
        assert [x.dtype for x in got] == [dtype] + [x.dtype for x in inputs]
        errors[form] = [relative_error(*pair) for pair in zip(got, expected, strict=True)]
    ours, theirs = errors.values()
    eps = torch.finfo(dtype).eps
    assert ours[0] < 0.5 * eps
    for one, other in zip(ours, theirs, strict=True):
        assert one < other + 0.5 * eps


def relative_error(got, want):
    return float(((got.double() - want).norm() / want.norm()).detach())


def test_previous_logits_take_the_dtype_of_the_logits():
    logits, previous = logits_of((1, 2, 3, 3), dtype=torch.float32)
    cascade = cascade_of("mlp", 2, torch.float32)
    assert cascade(logits, previous.double()).dtype == torch.float32


# Tensors saved for the backward pass.


def test_only_the_input_of_the_network_is_saved_for_the_backward_pass():
    shape = (2, 4, 6, 6)
    logits, previous = logits_of(shape)
    cascade = cascade_of("mlp", 4)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        cascade(logits, previous)
    parameters = {p.data_ptr() for p in cascade.parameters()}
    kept = [x for x in kept if x.data_ptr() not in parameters]
    assert [tuple(x.shape) for x in kept] == [shape]


# The mean of all layers below, instead of their sum.


@pytest.mark.parametrize("mask", ["none", "both"])
@pytest.mark.parametrize("kind", ["residual", "mlp"])
def test_cascade_form_mean_equals_the_mean_of_stored_contributions(kind, mask):
    """The expected logits use stored contributions of all layers before, and their mean."""
    shape, masked = SHAPES[0], mask_of(mask, SHAPES[0])
    own = logits_of(shape, count=4)
    layers = [
        cascade_of(kind, shape[1], seed=number, hidden_ratio=2, mean_over=number)
        for number in range(1, 4)
    ]
    carried, results = own[0], []
    contributions, expected = [own[0]], []
    for logits, cascade in zip(own[1:], layers, strict=True):
        result = cascade(logits, carried, masked)
        carried = cascade.carry(result, carried)
        results.append(result)
        mean = sum(contributions) / len(contributions)
        pairs = [(x.weight, x.bias) for x in cascade.network.layers] if kind == "mlp" else []
        expected.append(reference.cascade(logits, mean, masked, kind=kind, layers=pairs))
        contributions.append(expected[-1] - mean)
    inputs = [*own, *(p for cascade in layers for p in cascade.parameters())]
    torch.testing.assert_close(results, expected, **EXACT)
    got, want = (gradients(torch.stack(x), inputs) for x in (results, expected))
    torch.testing.assert_close(got, want, **EXACT)
