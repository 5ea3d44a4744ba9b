"""Routing a chunk of tokens at a time, forward and backward, by the plain form."""

import functools
import logging
from collections.abc import Callable
from types import FunctionType

import torch
from torch import Tensor
from torch.nn import functional as F

logger = logging.getLogger(__name__)

CPU_CHUNK = 2**18
"""Elements of the votes routed at once on the CPU: 1 MiB of float32, to stay in cache."""

DEVICE_CHUNK = 2**23
"""Elements of the votes routed at once elsewhere: 32 MiB of float32, of which the plain form's
backward pass keeps some thirty. Enough to keep a GPU busy, and few enough that 4,096 tokens of 4
heads and 512 dimensions, the smallest of the papers' models, are a full chunk: less than half of
one is not worth compiling for."""

_done: set[tuple] = set()  # variants that torch.compile has compiled
_failed: set[tuple] = set()  # and those that it failed on


class ChunkedRouting:
    """Routing in chunks; the backward pass repeats the iterations of each chunk.

    Args:
        routing: :func:`em_routing` or :func:`simple_routing`.
        options: the keyword arguments of ``routing``; hashable values.
        compiled: compile the work on a full chunk with torch.compile, once for every routing,
            dtype and shape of votes. Where that fails, a warning is logged once and the plain
            form does that work.
    """

    def __init__(self, routing: Callable[..., Tensor], options: dict, compiled: bool):
        self.call = routing, tuple(sorted(options.items()))
        self.compiled = compiled

    def forward(self, votes: Tensor) -> Tensor:
        """Routes (K, H, N, D) votes; returns the capsules, (K, N, D)."""
        votes = votes.detach()  # as a filled-up chunk is: to Dynamo the others were another case
        size = _tokens_at_once(votes)
        return torch.cat([self._run(_forward, size, chunk) for chunk in votes.split(size)])

    def backward(self, votes: Tensor, grad: Tensor) -> Tensor:
        """Gradient for the votes, (K, H, N, D), from that for the capsules, (K, N, D)."""
        votes = votes.detach()
        size = _tokens_at_once(votes)
        grad_votes = votes.new_empty(votes.shape)  # (K, H, N, D)
        for chunk, grad_chunk, out in zip(
            votes.split(size), grad.split(size), grad_votes.split(size), strict=True
        ):
            out.copy_(self._run(_backward, size, chunk, grad_chunk.contiguous()))
        return grad_votes

    def _run(self, work: Callable[..., Tensor], size: int, *tensors: Tensor) -> Tensor:
        """Does ``work`` on at most ``size`` tokens.

        Compiled code exists for full chunks only, so that no batch size compiles anew: a
        shorter chunk is filled up with zeros. It is done by the plain form, of some 230 small
        operations for EM routing forward and backward, if none longer than half a chunk has come.
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
                raise  # fairseq skips such a batch and goes on
            except Exception as error:  # whatever the compiler raises, there is another way
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
    # torch compiles a piece of code for 8 cases at most, so each variant has a copy of its own.
    own = FunctionType(work.__code__.replace(), globals())
    return torch.compile(own, fullgraph=True, dynamic=False)


@functools.cache  # one line for all variants that fail alike
def _warn(reason: str) -> None:
    logger.warning("routing runs uncompiled, and slower: torch.compile failed (%s)", reason)


def _forward(routing: Callable[..., Tensor], options: tuple, votes: Tensor) -> Tensor:
    return routing(votes, **dict(options))


def _backward(
    routing: Callable[..., Tensor], options: tuple, votes: Tensor, grad: Tensor
) -> Tensor:
    _, gradient_of = torch.func.vjp(lambda v: routing(v, **dict(options)), votes)
    return gradient_of(grad)[0]
