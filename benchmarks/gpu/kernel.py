"""The speed of CODA's kernel beside the form in chunks, and of other sizes of its blocks."""

from itertools import product
from unittest.mock import patch

import torch

from benchmarks.gpu.clock import milliseconds
from benchmarks.gpu.findings import part, put
from benchmarks.gpu.plan import Setting
from diverse_mha.methods.coda.chunked import ChunkedNetwork
from diverse_mha.methods.coda.modules import NetworkCascade

SMALL = [(4, 60, 30)]
LARGE = [(8, 65536, 30), (8, 65536, 100), (16, 65536, 30)]  # the device takes longer than the host
CASES = [(8, 4096, 30), (8, 4096, 100), (16, 4096, 30), (8, 16384, 30), (8, 4096, 512)]
# Pairs, warps and programs to try.
FORWARD = ((64, 8, 1056), (64, 4, 1056), (128, 4, 1056), (128, 8, 1056), (256, 8, 528),
           (128, 4, 2112), (64, 4, 2112), (64, 2, 2112), (64, 8, 10**6))  # fmt: skip
BACKWARD = ((32, 8, 528), (32, 4, 528), (32, 4, 1056), (64, 4, 528), (64, 8, 264), (32, 2, 1056),
            (128, 4, 264), (128, 8, 264), (64, 4, 264), (64, 2, 528))  # fmt: skip
FORMS = [("forward", *form) for form in FORWARD] + [("backward", *form) for form in BACKWARD]


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


def forms(setting: Setting) -> None:
    """How many pairs, warps and programs are fastest; on a CPU there is no kernel."""
    if setting.small:
        return
    from diverse_mha.methods.coda import tiles

    for which, *numbers in FORMS:
        form, what = tiles.Form(*numbers), "kernel forms, ms in bfloat16"
        name = f"{which}, {form.pairs} pairs, {form.warps} warps, {form.programs} programs"
        with part(what, name), patch.dict(tiles.FORMS, {(which, 2): form}):
            rows = {c: _time(setting, tiles.TiledNetwork, torch.bfloat16, *c) for c in LARGE}
            put(what, name, **{str(c): row[which == "backward"] for c, row in rows.items()})


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
