"""Chooses how the network across heads is computed: by a Triton kernel, or by torch in chunks."""

import functools
import logging

import torch
from torch import Tensor

from diverse_mha.methods.coda.chunked import ChunkedNetwork

logger = logging.getLogger(__name__)

MOST_HEADS = 16  # with more, the layers do not fit into registers
#: Dtype -> largest relative Euclidean distance of the kernel's results from ChunkedNetwork's.
TOLERANCE = {torch.float32: 2e-3, torch.float16: 2e-2, torch.bfloat16: 0.15}


def network_function(
    logits: Tensor,
    masked: Tensor | None,
    parameters: list[Tensor],
    *,
    on_gpu: bool | None = None,
) -> type[torch.autograd.Function]:
    """Return ``TiledNetwork`` or ``ChunkedNetwork``, whose results are equal up to rounding.

    ``TiledNetwork`` needs a CUDA GPU, Triton, two hidden layers, at most ``MOST_HEADS`` heads and a
    mask that all heads share. The first call in a process tries it on a small example. If it fails
    or differs from ``ChunkedNetwork``, a warning says why, and ``ChunkedNetwork`` is used.

    Args:
        logits: (B, H, T, S).
        masked: bool, broadcasts to (B, H, T, S), or None.
        parameters: weight and bias of each layer in turn.
        on_gpu: True to try the kernel; None: if the logits are on a CUDA GPU.
    """
    on_gpu = logits.device.type == "cuda" if on_gpu is None else on_gpu
    width, heads = parameters[0].shape
    fits = (
        on_gpu
        and logits.dtype in TOLERANCE
        and len(parameters) == 6
        and heads <= MOST_HEADS
        and width <= 4 * MOST_HEADS
        and (masked is None or masked.dim() < 3 or masked.size(-3) == 1)
    )
    if fits and _is_right(heads, width, logits.dtype, logits.device):
        from diverse_mha.methods.coda.triton_kernel import TiledNetwork

        return TiledNetwork
    return ChunkedNetwork


@functools.lru_cache
def _is_right(heads: int, width: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Return True if the kernel runs on this machine and agrees with ``ChunkedNetwork``."""
    try:
        from diverse_mha.methods.coda.triton_kernel import TiledNetwork

        pairs = zip(
            _try(TiledNetwork, heads, width, dtype, device),
            _try(ChunkedNetwork, heads, width, dtype, device),
            strict=True,
        )
        apart = max(float((a - b).norm() / b.norm().clamp_min(1e-6)) for a, b in pairs)
        why = "" if apart <= TOLERANCE[dtype] else f"its relative error is {apart:.1e}"
    except ImportError as error:
        why = str(error)
    except Exception as error:  # compilers and drivers raise anything
        why = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if why:
        logger.warning("the cascade's kernel for GPUs is not used, training is slower: %s", why)
    return not why


def _try(function, heads: int, width: int, dtype, device) -> list[Tensor]:
    """Return result and gradients of a small example, without drawing random numbers."""
    shapes = [(2, heads, 9, 13)] * 2
    for rows, columns in ((width, heads), (width, width), (heads, width)):
        shapes += [(rows, columns), (rows,)]
    # The first call, whose result is cached, may run with gradients switched off.
    precise = torch.autocast(device.type, enabled=False)
    with torch.inference_mode(False), torch.enable_grad(), precise:
        leaves = [_waves(s, n, device).to(dtype).requires_grad_() for n, s in enumerate(shapes)]
        masked = torch.ones(9, 13, dtype=torch.bool, device=device).triu(5)[None, None]
        out = function.apply(leaves[0], leaves[1], masked, 0.0, *leaves[2:])
        # A positive gradient, so that sums over pairs do not cancel.
        along = _waves(out.shape, 9, device).abs().to(dtype)
        grads = torch.autograd.grad(out, leaves, along)
    return [x.detach().float() for x in (out, *grads)]


def _waves(shape, phase: int, device) -> Tensor:
    count = int(torch.Size(shape).numel())
    return torch.arange(count, device=device).add(phase).mul(1.7).sin().mul(0.5).view(shape)
