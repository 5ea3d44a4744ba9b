"""Routing that keeps nothing but the votes for the backward pass."""

from collections.abc import Callable

import torch
from torch import Tensor

from diverse_mha.common.first_order import first_order_only
from diverse_mha.methods.routing.chunks import ChunkedRouting
from diverse_mha.methods.routing.kernel import KernelRouting
from diverse_mha.methods.routing.votes import check_votes

BACKENDS = ("auto", "kernel", "compiled", "chunked")


def fused_routing(
    routing: Callable[..., Tensor], votes: Tensor, options: dict, *, backend: str = "auto"
) -> Tensor:
    """Return the result and gradient of ``routing(votes, **options)`` in less time and memory.

    A chunk of tokens goes through all iterations while it is in cache, as tokens do not interact.
    The backward pass repeats the iterations.

    Args:
        routing: the plain form: :func:`em_routing`, :func:`simple_routing`, or another function
            of votes whose tokens do not interact.
        votes: (K, H, N, D), any floating-point dtype.
        options: the keyword arguments of ``routing``; hashable values.
        backend: ``"kernel"``: C++ built on first use, for these two, D = 1, float32 and the CPU.
            ``"chunked"``: the plain form, in chunks. ``"compiled"``: the same through
            torch.compile. ``"auto"``: the kernel if it applies; else compiled on a GPU and
            chunked on the CPU. Without a compiler it is chunked, and a warning is logged.

    Returns:
        (K, N, D), as ``routing`` returns it; differentiable once.

    Raises:
        ValueError: for an unknown backend, or a kernel that does not apply or cannot be built.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; expected one of {BACKENDS}")
    check_votes(votes)
    if votes.numel() == 0:
        return routing(votes, **options)
    on_cpu = votes.device.type == "cpu"
    if backend == "auto" and on_cpu and votes.dtype in (torch.float16, torch.bfloat16):
        votes = votes.float()  # as routing runs in float32 anyway
    if backend in ("auto", "kernel") and KernelRouting.fits(routing, votes):
        runner = KernelRouting(routing, options)
    elif backend == "kernel":
        raise ValueError(
            f"backend is 'kernel', and votes are {votes.dtype} on {votes.device} of shape "
            f"{tuple(votes.shape)}; expected float32 on the CPU, (K, H, N, 1), EM or simple "
            "routing, and a C++ compiler"
        )
    else:
        compiled = backend == "compiled" or (backend == "auto" and not on_cpu)
        runner = ChunkedRouting(routing, options, compiled)
    return _Recomputed.apply(votes, runner)


class _Recomputed(torch.autograd.Function):
    """Calls both directions of ``runner``, and keeps only the votes in between."""

    @staticmethod
    def forward(ctx, votes: Tensor, runner: KernelRouting | ChunkedRouting) -> Tensor:
        ctx.save_for_backward(votes)
        ctx.runner = runner
        return runner.forward(votes)

    @staticmethod
    @first_order_only
    def backward(ctx, grad: Tensor):
        (votes,) = ctx.saved_tensors
        return ctx.runner.backward(votes, grad), None
