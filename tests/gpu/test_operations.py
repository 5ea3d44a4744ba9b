"""Values and gradients of the papers' operations are near float64 on the CPU."""

import pytest
import torch

from diverse_mha.attention import MultiheadAttention
from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss
from diverse_mha.methods.coda import build_cascade
from diverse_mha.methods.coda.backend import network_function
from diverse_mha.methods.disagreement import (
    centre,
    mean_squared_cosine,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from diverse_mha.methods.drophead import drop_heads
from diverse_mha.methods.hsic import hsic, sample_positions
from diverse_mha.methods.orthogonality import srip
from diverse_mha.methods.routing import backend, em_routing, fused_routing, simple_routing
from diverse_mha.methods.routing.routing import RoutingAggregation
from tests.gpu.device import DEVICE, DTYPES, MARKS, ON_GPU, TOLERANCE, distance, name, to_device

pytestmark = MARKS
B, H, T, D = 4, 8, 30, 16
# Number of votes in a chunk: those of fewer than B * T tokens. So there are full chunks, which are
# compiled.
CHUNK = 12_288
MASK = torch.arange(T)[None, :] >= torch.tensor([T, 12, 0, 1])[:, None]  # True = padding


@pytest.fixture(autouse=True)
def compiled_routing(monkeypatch):
    """Make routing use compiled code, which needs nearly full chunks."""
    monkeypatch.setattr(backend, "DEVICE_CHUNK", CHUNK)
    monkeypatch.setattr(backend, "_failed", set())
    yield
    assert not backend._failed, "routing must run compiled"


def heads(generator):
    return torch.randn(B, T, H, D, generator=generator).transpose(1, 2)


def padded_heads(generator):
    """Return heads with NaN at padded positions, which must not be read."""
    return heads(generator).masked_fill(MASK[:, None, :, None], float("nan"))


def weights(generator):
    return torch.randn(B, H, T, T, generator=generator).softmax(-1)


def logits(generator):
    return torch.randn(B, H, T, T, generator=generator)


def votes(generator):
    return torch.randn(B * T, H, 6, 4, generator=generator)


def features(generator):
    return torch.randn(B, T, H * D, generator=generator)


def word_loss(x, mask):
    words = torch.linspace(-1, 1, 50 * H * D, device=x.device, dtype=x.dtype).view(50, -1)
    target = torch.arange(B * T, device=x.device).view(B, T).remainder(50).masked_fill(mask, 1)
    return fused_label_smoothed_loss(x, words.sin(), target, 0.1, 1)[0]


def module(make):
    """Return an operation that builds a module with parameters drawn on the CPU."""

    def operation(x, mask):
        torch.manual_seed(1)
        return make().to(x.device, x.dtype)(x, mask)

    return operation


class _Routed(RoutingAggregation):
    def forward(self, x, mask):
        return super().forward(x.transpose(1, 2).flatten(2))


class _Attended(MultiheadAttention):
    def forward(self, x, mask):
        return super().forward(x, x, x, key_padding_mask=mask & mask.any(1, keepdim=True))[0]


class _Cascaded(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cascade = build_cascade(kind, H)

    def forward(self, x, mask):
        return self.cascade(x, x.flip(0), mask[:, None, None, :])


OPERATIONS = {
    "subspace": (heads, subspace_disagreement),
    "position": (weights, lambda x, mask: position_disagreement(x, mask, mask)),
    "output": (heads, output_disagreement),
    "squared": (heads, mean_squared_cosine),
    "centred": (heads, lambda x, mask: output_disagreement(centre(x, mask), mask)),
    "hsic": (padded_heads, lambda x, mask: hsic(x, mask)),
    "srip-power": (padded_heads, lambda x, mask: srip(x, mask)),
    "srip-exact": (padded_heads, lambda x, mask: srip(x, mask, method="exact")),
    "em": (votes, lambda x, mask: fused_routing(em_routing, x, {})),
    "simple": (votes, lambda x, mask: fused_routing(simple_routing, x, {})),
    "em-module": (heads, module(lambda: _Routed(H * D, H))),
    "simple-module": (heads, module(lambda: _Routed(H * D, H, kind="simple-routing"))),
    "attention": (features, module(lambda: _Attended(H * D, H, batch_first=True))),
    "cascade-mlp": (logits, module(lambda: _Cascaded("mlp"))),
    "cascade-residual": (logits, module(lambda: _Cascaded("residual"))),
    "token-loss": (features, word_loss),
}


def value_and_gradient(operation, x, mask):
    x = x.detach().requires_grad_()
    value = operation(x, mask)
    # The sum is weighted: plain sums of softmax or normalised outputs have a gradient of 0.
    wave = torch.linspace(-1, 1, value.numel(), device=x.device).view_as(value)
    (value.to(wave.dtype) * wave if value.ndim else value).sum().backward()
    return value.detach(), x.grad


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_on_gpu_and_cpu_are_equal(operation, dtype, record_property):
    draw, function = OPERATIONS[operation]
    x = draw(torch.Generator().manual_seed(3)).to(dtype)
    expected = value_and_gradient(function, x.double(), MASK)
    found = value_and_gradient(function, to_device(x), to_device(MASK))
    apart = [distance([a], [b]) for a, b in zip(found, expected, strict=True)]
    record_property("value", apart[0])
    record_property("gradient", apart[1])
    assert max(apart) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_drophead_keeps_whole_heads_and_scales_them(dtype):
    x = to_device(heads(torch.Generator().manual_seed(3)), dtype=dtype)
    kept = drop_heads(x, 0.5)
    whole = kept.ne(0).flatten(2).any(2)
    assert 0 < int(whole.sum()) < whole.numel()
    assert torch.equal(kept, torch.where(whole[:, :, None, None], 2 * x, 0))


def test_random_samples_come_from_the_devices_generator():
    torch.manual_seed(0)
    cpu = torch.get_rng_state()
    first = sample_positions(None, (4, 30), 10, training=True, device=DEVICE)
    torch.manual_seed(0)
    again = sample_positions(None, (4, 30), 10, training=True, device=DEVICE)
    assert first.device.type == DEVICE.type and torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), cpu) == ON_GPU


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
def test_a_gpu_uses_the_cascades_kernel(dtype):
    """Without the kernel, the network would run in chunks, with only a warning."""
    parameters = [p.to(DEVICE, dtype) for p in build_cascade("mlp", H).network.flat_parameters()]
    logits = torch.zeros(B, H, T, T, device=DEVICE, dtype=dtype)
    chosen = network_function(logits, None, parameters).__name__
    assert chosen == ("TiledNetwork" if ON_GPU else "ChunkedNetwork")
