"""CODA's Triton kernel is near float64. Without a GPU, the chunked network is tested instead."""

import pytest
import torch

from diverse_mha.methods.coda.chunked import ChunkedNetwork
from tests.gpu.device import DEVICE, MARKS, ON_GPU, distance, name
from tests.methods.coda.test_triton_kernel import example

pytestmark = MARKS
# Largest relative errors. Rounding may change the sign of a hidden unit near 0, where LeakyReLU
# has a kink. In float32 this affects one unit in ten million, so only one of the lengths may reach
# ONE_SIGN.
LIMIT = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 0.15}
ONE_SIGN = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 0.15}
LENGTHS = [(1, 1), (1, 2), (15, 16), (17, 63), (63, 17), (65, 127), (200, 200), (511, 130)]
LENGTHS = LENGTHS if ON_GPU else LENGTHS[:4]
MASKS = {
    "none": lambda b, t, s: None,
    "padding": lambda b, t, s: (
        torch.arange(s) >= torch.arange(1, b + 1)[:, None] * s // b
    )[:, None, None],
    "causal": lambda b, t, s: torch.ones(t, s, dtype=torch.bool).triu(1)[None, None],
    "strided": lambda b, t, s: (torch.arange(b * t * s).view(b, 1, s, t) % 3 == 1).transpose(2, 3),
}  # fmt: skip


def kernel():
    if not ON_GPU:
        return ChunkedNetwork
    from diverse_mha.methods.coda.triton_kernel import TiledNetwork

    return TiledNetwork


def run(network, logits, previous, along, masked, parameters):
    leaves = [x.detach().requires_grad_() for x in (logits, previous, *parameters)]
    out = network.apply(leaves[0], leaves[1], masked, 0.0, *leaves[2:])
    return [out, *torch.autograd.grad(out, leaves, along)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("heads", [8, 4, 16, 2, 6, 12])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16], ids=name)
def test_the_kernel_equals_plain_torch(dtype, heads, mask, record_property):
    worst = {"kernel": [], "in chunks": []}
    for queries, keys in LENGTHS:
        module, parameters, drawn = example(heads, 2, queries, keys, dtype)
        masked = MASKS[mask](2, queries, keys)
        module, masked = module.to(DEVICE), None if masked is None else masked.to(DEVICE)
        parameters, (logits, previous, along) = [p.to(DEVICE) for p in parameters], drawn.to(DEVICE)
        exact = [x.double().requires_grad_() for x in (logits, previous)]
        straight = module(*exact, masked)
        leaves = [*exact, *module.network.flat_parameters()]
        wanted = [straight, *torch.autograd.grad(straight, leaves, along.double())]
        if masked is not None:  # masked values are never read
            logits = logits.masked_fill(masked, float("nan"))
            previous = previous.masked_fill(masked, float("inf"))
        given = logits, previous, along, masked, parameters
        found = run(kernel(), *given)
        assert all(map(torch.equal, found, run(kernel(), *given))), (
            "a repetition gives the same bits"
        )
        for key, of in (("kernel", found), ("in chunks", run(ChunkedNetwork, *given))):
            apart = [distance([a], [b]) for a, b in zip(of, wanted, strict=True)]
            worst[key].append(max(apart))
    for key, values in worst.items():
        record_property(key, max(values))
    *others, most = sorted(worst["kernel"])
    assert most < max(ONE_SIGN[dtype], 2 * max(worst["in chunks"]))
    assert max(others) < max(LIMIT[dtype], 2 * max(worst["in chunks"]))
