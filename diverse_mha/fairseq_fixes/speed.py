"""Speed and memory: half-precision copies, cuDNN's attention, oneDNN's cache.

With ``--bf16`` and ``fused_adam``, fairseq-fixed 0.12.3.1 copies and clears tensors one by one: a
thousand launches a step for Transformer Base, as long as the forward pass on the host of a GPU
(docs/performance.md). Its batches come in hundreds of shapes. For every new one cuDNN's attention
takes part of a second, and oneDNN's cache grows to a gigabyte in bfloat16 on a CPU.
"""

import os

import torch
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin

from diverse_mha.fairseq_fixes.patch import in_place_of


def _together(optimizer: _FP16OptimizerMixin) -> bool:
    """Say whether to; with flat parameters (``--fp16`` on a GPU) there is less to gain."""
    own = optimizer.fp32_optimizer
    return getattr(own, "takes_all_at_once", False) and not optimizer.has_flat_params


@in_place_of(_FP16OptimizerMixin, "_sync_fp16_grads_to_fp32")
def copy_gradients(one_by_one, self):
    """Copy the gradients to float32; a parameter without one gets zeros."""
    if not _together(self):
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
        found = [(exact.grad, half.grad) for half, exact in pairs if half.grad is not None]
        if found:
            torch._foreach_copy_(*map(list, zip(*found, strict=True)))
        self._needs_sync = False


@in_place_of(_FP16OptimizerMixin, "_sync_fp32_params_to_fp16")
def copy_parameters(one_by_one, self):
    """Copy the parameters to the model."""
    if not _together(self):
        return one_by_one(self)
    pairs = zip(self.fp16_params, self.fp32_params, strict=True)
    trained = [(half.data, exact.data) for half, exact in pairs if half.requires_grad]
    if trained:
        torch._foreach_copy_(*map(list, zip(*trained, strict=True)))


@in_place_of(_FP16OptimizerMixin, "zero_grad")
def clear_gradients(one_by_one, self):
    """Clear the gradients in float32, then let fairseq do the rest."""
    if not _together(self):
        return one_by_one(self)
    kept = [exact.grad for exact in self.fp32_params]
    if there := [grad for grad in kept if grad is not None]:
        torch._foreach_zero_(there)
    for exact in self.fp32_params:
        exact.grad = None  # fairseq clears none
    one_by_one(self)
    for exact, grad in zip(self.fp32_params, kept, strict=True):
        exact.grad = grad


if os.environ.get("DIVERSE_MHA_CUDNN_ATTENTION") != "1":
    torch.backends.cuda.enable_cudnn_sdp(False)


for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(cache, "64")  # the shapes of one update; the default is 1,000
