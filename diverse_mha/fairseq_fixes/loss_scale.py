"""Loss scale of float16: an overflow is skipped without a GPU too.

When gradients overflow, fairseq-fixed 0.12.3.1 halves the loss scale and skips the update, but
moves a zero to the GPU, even on a CPU. There the first overflow ends a training with
``--memory-efficient-fp16`` or ``--fp16-no-flatten-grads`` in torch's ``AssertionError: Torch not
compiled with CUDA enabled``.
"""

import torch
from fairseq.trainer import Trainer

from diverse_mha.fairseq_fixes.patch import patch, patched


@patch(Trainer, "train_step")
def skip_overflow_on_a_cpu(original, self, *args, **kwargs):
    """Make an update; in float16 on a CPU, tensors stay there if fairseq moves them to a GPU."""
    if self.cuda or not self.cfg.common.fp16:
        return original(self, *args, **kwargs)
    with patched(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor):
        return original(self, *args, **kwargs)
