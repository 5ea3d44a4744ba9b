"""The speed of CODA's kernel beside the form in chunks."""

from itertools import product

import torch

from benchmarks.gpu.findings import part, put
from benchmarks.gpu.plan import Setting
from benchmarks.rounds import milliseconds
from diverse_mha.methods.coda.chunked import ChunkedNetwork
from diverse_mha.methods.coda.modules import NetworkCascade

SMALL = [(4, 60, 30)]
CASES = [(8, 4096, 30), (8, 4096, 100), (16, 4096, 30), (8, 16384, 30), (8, 4096, 512)]


def speed(setting: Setting) -> None:
    """A module forward and backward on padded sentences: heads, tokens, length of a sentence."""
    networks = [ChunkedNetwork]
    if not setting.small:
        from diverse_mha.methods.coda import tiles

        networks.append(tiles.TiledNetwork)
    cases = SMALL if setting.small else CASES
    for dtype, case in product((torch.bfloat16, torch.float32), cases):
        name, what = f"{dtype}, {case}", "kernel, ms forward and backward; heads, tokens, length"
        with part(what, name):
            put(what, name, **{n.__name__: _time(setting, n, dtype, *case) for n in networks})


def _time(setting: Setting, network, dtype, heads, tokens, length) -> list[float]:
    device, batch = setting.device, tokens // length
    shape, like = (batch, heads, length, length), {"device": device, "dtype": dtype}
    logits, previous = (torch.randn(shape, **like, requires_grad=True) for _ in range(2))
    mask = torch.arange(length, device=device) >= torch.arange(2, batch + 2, device=device)[:, None]
    parameters = [p.to(device, dtype) for p in NetworkCascade(heads).network.flat_parameters()]
    leaves = [logits, previous, *(p.detach().requires_grad_() for p in parameters)]

    def forward() -> torch.Tensor:
        return network.apply(*leaves[:2], mask[:, None, None], 1.0, *leaves[2:])

    out = forward()
    works = forward, lambda: torch.autograd.grad(out, leaves, logits, retain_graph=True)
    return [milliseconds(work, device)[0] for work in works]
