"""Speed and memory patches: half-precision copies, cuDNN's attention, oneDNN's cache.

With ``--bf16`` and ``fused_adam``, fairseq-fixed 0.12.3.1 copies and clears tensors one by one. For
Transformer Base, a step then launches a thousand kernels, which keeps the CPU busy for as long as
the forward pass (docs/performance.md). fairseq's batches have hundreds of shapes. cuDNN's attention
takes part of a second for each new shape, and oneDNN's cache of shapes grows to a gigabyte in
bfloat16 on a CPU.
"""

import os
from typing import Any, cast

import torch
from fairseq.optim.fp16_optimizer import FP16Optimizer, _FP16OptimizerMixin

from diverse_mha.fairseq_fixes.patch import patch

_torch = cast("Any", torch)  # has no public names for its operations on lists of tensors


def _copies_in_one_call(optimizer: FP16Optimizer) -> bool:
    """Return True if tensors are copied in one call (fused_adam, parameters not flattened)."""
    fused = getattr(optimizer.fp32_optimizer, "takes_all_at_once", False)
    return fused and not optimizer.has_flat_params


@patch(_FP16OptimizerMixin, "_sync_fp16_grads_to_fp32")
def copy_gradients(one_by_one, self):
    """Copy the half-precision gradients to float32; parameters without gradient get zeros."""
    if not _copies_in_one_call(self):
        return one_by_one(self)
    if self._needs_sync:
        pairs = [
            pair
            for pair in zip(self.fp16_params, self.fp32_params, strict=True)
            if pair[0].requires_grad
        ]
        for half, exact in pairs:
            if exact.grad is None or half.grad is None:
                exact.grad = torch.zeros_like(exact)
        grads = [(exact.grad, half.grad) for half, exact in pairs if half.grad is not None]
        if grads:
            _torch._foreach_copy_(*map(list, zip(*grads, strict=True)))
        self._needs_sync = False


@patch(_FP16OptimizerMixin, "_sync_fp32_params_to_fp16")
def copy_parameters(one_by_one, self):
    """Copy the float32 parameters to the half-precision model."""
    if not _copies_in_one_call(self):
        return one_by_one(self)
    pairs = zip(self.fp16_params, self.fp32_params, strict=True)
    trained = [(half.data, exact.data) for half, exact in pairs if half.requires_grad]
    if trained:
        _torch._foreach_copy_(*map(list, zip(*trained, strict=True)))


@patch(_FP16OptimizerMixin, "zero_grad")
def clear_gradients(one_by_one, self):
    """Zero the float32 gradients in one call, then let fairseq clear the others."""
    if not _copies_in_one_call(self):
        return one_by_one(self)
    grads = [exact.grad for exact in self.fp32_params]
    if present := [grad for grad in grads if grad is not None]:
        _torch._foreach_zero_(present)
    for exact in self.fp32_params:
        exact.grad = None  # so that fairseq does not clear them again
    one_by_one(self)
    for exact, grad in zip(self.fp32_params, grads, strict=True):
        exact.grad = grad


if os.environ.get("DIVERSE_MHA_CUDNN_ATTENTION") != "1":
    torch.backends.cuda.enable_cudnn_sdp(False)


for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(cache, "64")  # enough for one update's shapes; the default is 1,024
