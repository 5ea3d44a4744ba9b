"""Backends of routing: a C++ kernel where it can be built, else torch in chunks."""

import functools
import logging
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from diverse_mha.attention.first_order import first_order_only
from diverse_mha.methods.routing.algorithms import check_votes
from diverse_mha.methods.routing.cpp_kernel import KernelRouting

logger = logging.getLogger(__name__)

CPU_CHUNK = 2**18  # elements of the votes at once: 1 MiB of float32, to stay in cache
DEVICE_CHUNK = 2**23  # elements on other devices: 4,096 tokens of 4 heads and 512 dimensions

_done: set[tuple] = set()  # variants that torch.compile has compiled
_failed: set[tuple] = set()  # variants that torch.compile failed to compile


class ChunkedRouting:
    """Routing in chunks; the backward pass repeats the iterations of each chunk.

    Args:
        routing: :func:`em_routing` or :func:`simple_routing`.
        options: the keyword arguments of ``routing``; hashable values.
        compiled: compile the work on a full chunk, once for every routing, dtype and shape of
            votes. If that fails, a warning is logged and the plain form is used.
    """

    def __init__(self, routing: Callable[..., Tensor], options: dict[str, Any], compiled: bool):
        self.call = routing, tuple(sorted(options.items()))
        self.compiled = compiled

    def forward(self, votes: Tensor) -> Tensor:
        """Route (K, H, N, D) votes to capsules (K, N, D)."""
        votes = votes.detach()  # padded chunks are detached: else Dynamo compiles both cases
        size = _tokens_at_once(votes)
        return torch.cat([self._run(_forward, size, chunk) for chunk in votes.split(size)])

    def backward(self, votes: Tensor, grad: Tensor) -> Tensor:
        """Return the gradient of the votes, (K, H, N, D), from that of the capsules, (K, N, D)."""
        votes = votes.detach()
        size = _tokens_at_once(votes)
        grad_votes = votes.new_empty(votes.shape)  # (K, H, N, D)
        for chunk, grad_chunk, out in zip(
            votes.split(size), grad.split(size), grad_votes.split(size), strict=True
        ):
            out.copy_(self._run(_backward, size, chunk, grad_chunk.contiguous()))
        return grad_votes

    def _run(self, work: Callable[..., Tensor], size: int, *tensors: Tensor) -> Tensor:
        """Do ``work`` on at most ``size`` tokens.

        Only full chunks are compiled, so that new batch sizes do not compile again: a shorter chunk
        is padded with zeros. Chunks below half of ``size`` use the plain form until a longer chunk
        has been compiled.
        """
        votes, tokens = tensors[0], tensors[0].size(0)
        variant = work, *self.call, votes.dtype, votes.shape[1:], votes.device
        worth = variant in _done or 2 * tokens >= size
        if self.compiled and variant not in _failed and worth:
            try:
                full = [_fill_up(tensor, size) for tensor in tensors]
                result = _compile(*variant)(*self.call, *full)[:tokens]
                _done.add(variant)
                return result
            except torch.OutOfMemoryError:
                raise  # fairseq skips such a batch and continues
            except Exception as error:  # compilers raise anything
                _failed.add(variant)
                reason = next(iter(str(error).strip().splitlines()), "")
                _warn(f"{type(error).__name__}: {reason}")
        return work(*self.call, *tensors)


def _tokens_at_once(votes: Tensor) -> int:
    chunk = CPU_CHUNK if votes.device.type == "cpu" else DEVICE_CHUNK
    return max(1, chunk // votes[0].numel())


def _fill_up(tensor: Tensor, size: int) -> Tensor:
    missing = size - tensor.size(0)
    return F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, missing)) if missing else tensor


@functools.cache
def _compile(work: Callable[..., Tensor], *variant) -> Callable[..., Tensor]:
    # torch compiles a code object for 8 cases at most, so each variant has its own copy.
    own = FunctionType(work.__code__.replace(), globals())
    return torch.compile(own, fullgraph=True, dynamic=False)


@functools.cache  # once for each reason
def _warn(reason: str) -> None:
    logger.warning("routing runs uncompiled, and slower: torch.compile failed (%s)", reason)


def _forward(routing: Callable[..., Tensor], options: tuple, votes: Tensor) -> Tensor:
    return routing(votes, **dict(options))


def _backward(
    routing: Callable[..., Tensor], options: tuple, votes: Tensor, grad: Tensor
) -> Tensor:
    gradient_of = torch.func.vjp(lambda v: routing(v, **dict(options)), votes)[1]
    return gradient_of(grad)[0]


BACKENDS = ("auto", "kernel", "compiled", "chunked")


def fused_routing(
    routing: Callable[..., Tensor],
    votes: Tensor,
    options: dict[str, Any],
    *,
    backend: str = "auto",
) -> Tensor:
    """Return ``routing(votes, **options)``, with its gradient, in less time and memory.

    A chunk of tokens goes through all iterations while it is in cache, as tokens do not interact.
    The backward pass repeats the iterations.

    Args:
        routing: the plain form: :func:`em_routing`, :func:`simple_routing`, or another function
            of votes whose tokens do not interact.
        votes: (K, H, N, D), any floating-point dtype.
        options: the keyword arguments of ``routing``; hashable values.
        backend: ``"kernel"``: C++ built on first use, for EM and simple routing with D = 1 in
            float32 on the CPU. ``"chunked"``: the plain form, in chunks. ``"compiled"``: chunks
            through torch.compile. ``"auto"``: the kernel if it applies; else ``"compiled"`` on a
            GPU and ``"chunked"`` on the CPU. Without a compiler, ``"auto"`` and ``"compiled"`` run
            the plain form in chunks and log a warning.

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
