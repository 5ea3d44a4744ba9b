"""Routing with little memory traffic: tokens in cache-sized chunks, iterations recomputed."""

import functools
import logging
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

logger = logging.getLogger(__name__)

CPU_CHUNK = 2**18
"""Elements of the votes routed at once on the CPU: 1 MiB of float32, so that iterations run in
cache."""

DEVICE_CHUNK = 2**24
"""Elements of the votes routed at once elsewhere: enough to keep a GPU busy, little beside its
memory."""

_compile_failed = False


def fused_routing(
    routing: Callable[..., Tensor], votes: Tensor, options: dict, *, compiled: bool = True
) -> Tensor:
    """Same result and gradient as ``routing(votes, **options)``, in less time and memory.

    Plain autograd writes some ten tensors of the size of the votes in every iteration, keeps
    them for the backward pass and reads them back from memory. Tokens do not interact, so here
    they are routed a chunk at a time, the votes are all that is kept, and the backward pass
    repeats the iterations of a chunk while they are in cache.

    Args:
        routing: :func:`em_routing` or :func:`simple_routing`, the plain form.
        votes: (K, H, N, D), any floating-point dtype.
        options: the keyword arguments of ``routing``; hashable values.
        compiled: compile the work on one chunk with torch.compile. Where that fails, for want
            of a C++ compiler say, a warning is logged once and the plain form does that work.

    Returns:
        (K, N, D), as ``routing`` returns it; differentiable once.

    Raises:
        ValueError: as ``routing`` does.
    """
    if votes.dim() != 4 or votes.numel() == 0:
        return routing(votes, **options)
    return _ChunkedRouting.apply(votes, routing, tuple(sorted(options.items())), compiled)


class _ChunkedRouting(torch.autograd.Function):
    """Keeps nothing but the votes, and recomputes chunk by chunk in the backward pass."""

    @staticmethod
    def forward(ctx, votes: Tensor, routing, options: tuple, compiled: bool) -> Tensor:
        ctx.save_for_backward(votes)
        ctx.call = routing, options, compiled
        size = _tokens_at_once(votes)
        return torch.cat(
            [_run("forward", *ctx.call, size, chunk) for chunk in votes.split(size)]
        )  # (K, N, D)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (votes,) = ctx.saved_tensors
        size = _tokens_at_once(votes)
        grad_votes = votes.new_empty(votes.shape)  # (K, H, N, D)
        for chunk, grad_chunk, out in zip(
            votes.split(size), grad.split(size), grad_votes.split(size), strict=True
        ):
            out.copy_(_run("backward", *ctx.call, size, chunk, grad_chunk.contiguous()))
        return grad_votes, None, None, None


def _tokens_at_once(votes: Tensor) -> int:
    chunk = CPU_CHUNK if votes.device.type == "cpu" else DEVICE_CHUNK
    return max(1, chunk // votes[0].numel())


def _run(direction: str, routing, options: tuple, compiled: bool, size: int, *tensors) -> Tensor:
    """Routes one chunk of at most ``size`` tokens, or takes its gradient.

    Compiled code exists for full chunks only, so that no batch size compiles anew: a shorter
    chunk is filled up with zeros, or done by the plain form if it is not worth that.
    """
    global _compile_failed
    plain = _PLAIN[direction]
    tokens = tensors[0].size(0)
    if not compiled or _compile_failed or 2 * tokens < size:
        return plain(routing, options, *tensors)
    full = [_fill_up(tensor, size) for tensor in tensors]
    try:
        return _compiled(direction)(routing, options, *full)[:tokens]
    except Exception as error:  # whatever the compiler raises, there is another way
        _compile_failed = True
        reason = str(error).strip().splitlines()
        logger.warning(
            "torch.compile does not work here, so routing runs uncompiled and slower (%s: %s)",
            type(error).__name__,
            reason[0] if reason else "",
        )
        return plain(routing, options, *tensors)


def _fill_up(tensor: Tensor, size: int) -> Tensor:
    missing = size - tensor.size(0)
    return F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, missing)) if missing else tensor


@functools.lru_cache(maxsize=2)
def _compiled(direction: str):
    return torch.compile(_PLAIN[direction], fullgraph=True, dynamic=False)


def _forward(routing, options: tuple, votes: Tensor) -> Tensor:
    return routing(votes, **dict(options))


def _backward(routing, options: tuple, votes: Tensor, grad: Tensor) -> Tensor:
    _, gradient_of = torch.func.vjp(lambda v: routing(v, **dict(options)), votes)
    return gradient_of(grad)[0]


_PLAIN = {"forward": _forward, "backward": _backward}
