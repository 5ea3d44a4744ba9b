"""The cascade's GPU kernel, run by Triton's interpreter, equals plain torch."""

import functools
import logging
import sys

import pytest
import torch

from diverse_mha.methods.coda import backend
from diverse_mha.methods.coda.cascade import NetworkCascade
from diverse_mha.methods.coda.chunked import ChunkedNetwork
from tests.gpu.device import distance


@pytest.fixture
def tiles(monkeypatch):
    """Module of the kernels, imported so that Triton interprets them."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton", reason="pip install triton")
    name = "diverse_mha.methods.coda.triton_kernel"
    monkeypatch.delitem(sys.modules, name, raising=False)
    import diverse_mha.methods.coda.triton_kernel as module

    backend._is_right.cache_clear()
    yield module
    backend._is_right.cache_clear()
    sys.modules.pop(name, None)


#: Chooses the backend of the network as on a GPU.
network_function = functools.partial(backend.network_function, on_gpu=True)


SHAPES = {
    "one-tile": (4, 2, 5, 7),
    "ragged": (3, 2, 9, 13),
    "wide": (16, 1, 4, 17),
    "one-pair": (8, 2, 1, 1),
}
MASKS = {
    "none": lambda b, t, s: None,
    "padding": lambda b, t, s: torch.arange(b * s).view(b, 1, 1, s) % 5 == 1,
    "causal": lambda b, t, s: torch.ones(t, s, dtype=torch.bool).triu(1)[None, None],
    "both": lambda b, t, s: torch.arange(b * t * s).view(b, 1, t, s) % 3 == 1,
    "plain": lambda b, t, s: torch.ones(t, s, dtype=torch.bool).triu(1),
}


def example(heads, bsz, tgt, src, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    drawn = torch.randn(3, bsz, heads, tgt, src, generator=generator, dtype=torch.float64)
    module = NetworkCascade(heads).to(torch.float64)
    for p in module.parameters():
        p.data.normal_(0.0, 0.4, generator=generator)
    parameters = [p.detach().to(dtype) for p in module.network.flat_parameters()]
    module.load_state_dict(
        dict(zip(module.state_dict(), (p.double() for p in parameters), strict=True))
    )
    return module, parameters, drawn.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_equal_plain_torch(tiles, shape, mask, dtype):
    """bfloat16 is not tested, because Triton's interpreter cannot multiply it."""
    heads, bsz, tgt, src = SHAPES[shape]
    module, parameters, (logits, previous, along) = example(*SHAPES[shape], dtype)
    masked = MASKS[mask](bsz, tgt, src)
    leaves = [x.clone().requires_grad_() for x in (logits, previous, *parameters)]
    out = tiles.TiledNetwork.apply(leaves[0], leaves[1], masked, 0.0, *leaves[2:])
    assert out.dtype == dtype
    results = [out, *torch.autograd.grad(out, leaves, along)]
    exact = [x.double().requires_grad_() for x in (logits, previous)]
    plain = module(*exact, masked)
    leaves = [*exact, *module.network.flat_parameters()]
    expected = [plain, *torch.autograd.grad(plain, leaves, along.double())]
    tolerance = {torch.float32: 1e-5, torch.float16: 5e-3}[dtype]
    names = ["out", "logits", "previous", *range(6)]
    for name, a, b in zip(names, results, expected, strict=True):
        assert distance([a], [b]) < tolerance, name
    if masked is not None:
        assert not out.masked_select(masked.expand_as(out)).any()


def test_programs_with_several_tiles_sum_their_gradients(tiles, monkeypatch):
    module, parameters, (logits, previous, along) = example(4, 3, 9, 15, torch.float32)
    results = []
    for programs in (512, 2):
        changed = {key: form._replace(programs=programs) for key, form in tiles.FORMS.items()}
        monkeypatch.setattr(tiles, "FORMS", changed)
        leaves = [x.clone().requires_grad_() for x in (logits, previous, *parameters)]
        out = tiles.TiledNetwork.apply(leaves[0], leaves[1], None, 0.0, *leaves[2:])
        results.append([out, *torch.autograd.grad(out, leaves, along)])
    assert distance(*results) < 1e-6


def test_the_kernel_equals_the_chunked_network_with_noise_and_strides(tiles):
    module, parameters, (logits, previous, _) = example(4, 2, 5, 7, torch.float32)
    logits = logits.transpose(2, 3).contiguous().transpose(2, 3)
    results = []
    for network in (tiles.TiledNetwork, ChunkedNetwork):
        torch.manual_seed(7)
        results.append(network.apply(logits, previous, None, 0.5, *parameters))
    torch.testing.assert_close(*results)


def test_the_kernel_runs_on_the_device_of_its_tensors(tiles, monkeypatch):
    """Triton launches on the current device, which may be another GPU."""
    _, parameters, (logits, previous, along) = example(4, 2, 5, 7, torch.float32)
    guarded, guard = [], torch.cuda.device_of
    monkeypatch.setattr(torch.cuda, "device_of", lambda x: guarded.append(x.shape) or guard(x))
    logits.requires_grad_()
    tiles.TiledNetwork.apply(logits, previous, None, 0.0, *parameters).backward(along)
    assert guarded == [logits.shape] * 2, "both passes select the device of the logits"


def test_the_kernel_is_used_if_it_agrees_with_the_chunked_network(tiles, caplog):
    module, parameters, (logits, previous, _) = example(4, 2, 5, 7, torch.float32)
    state = torch.get_rng_state()
    assert network_function(logits, None, parameters) is tiles.TiledNetwork
    assert torch.equal(state, torch.get_rng_state()) and not caplog.messages
    fused = NetworkCascade(4).eval()
    fused.load_state_dict(module.state_dict())
    assert distance([fused(logits, previous)], [module(logits.double(), previous.double())]) < 1e-5


def test_the_kernel_is_checked_with_gradients_in_inference_mode_too():
    """The check's result is cached, so it also decides for later trainings."""
    given = 4, 16, torch.float32, torch.device("cpu")
    tried = backend._try(ChunkedNetwork, *given)
    with torch.inference_mode():
        assert all(map(torch.equal, tried, backend._try(ChunkedNetwork, *given)))


def test_a_kernel_with_wrong_values_is_not_used(tiles, monkeypatch, caplog):
    monkeypatch.setattr(tiles, "NEGATIVE_SLOPE", 0.3)
    _, parameters, (logits, _, _) = example(4, 2, 5, 7, torch.float32)
    for _ in range(2):
        assert network_function(logits, None, parameters) is ChunkedNetwork
    (message,) = caplog.messages
    assert "is not used" in message and "relative error" in message


def test_without_triton_the_network_runs_in_chunks(monkeypatch, caplog):
    backend._is_right.cache_clear()
    monkeypatch.setitem(sys.modules, "diverse_mha.methods.coda.triton_kernel", None)
    _, parameters, (logits, _, _) = example(4, 2, 5, 7, torch.float32)
    with caplog.at_level(logging.WARNING):
        assert network_function(logits, None, parameters) is ChunkedNetwork
    assert len(caplog.messages) == 1
    backend._is_right.cache_clear()


def test_networks_that_the_kernel_does_not_support_run_in_chunks(monkeypatch):
    monkeypatch.setattr(backend, "_is_right", lambda *args: pytest.fail("the kernel is tried"))
    cases = {
        "float64": example(4, 2, 5, 7)[1:],
        "heads": example(17, 1, 2, 3, torch.float32)[1:],
    }
    for name, (parameters, (logits, _, _)) in cases.items():
        assert network_function(logits, None, parameters) is ChunkedNetwork, name
    _, parameters, (logits, _, _) = example(4, 2, 5, 7, torch.float32)
    by_head = torch.zeros(1, 4, 5, 7, dtype=torch.bool)
    assert network_function(logits, by_head, parameters) is ChunkedNetwork
    assert network_function(logits, None, parameters[:4]) is ChunkedNetwork
    # Twice the largest width that fits: 16 heads and --cascade-hidden-ratio 8.
    wide = NetworkCascade(16, hidden_ratio=8).network.flat_parameters()
    logits = torch.zeros(1, 16, 2, 3)
    assert network_function(logits, None, wide) is ChunkedNetwork


def test_a_cpu_does_not_use_the_kernel():
    _, parameters, (logits, _, _) = example(4, 2, 5, 7, torch.float32)
    assert backend.network_function(logits, None, parameters) is ChunkedNetwork
