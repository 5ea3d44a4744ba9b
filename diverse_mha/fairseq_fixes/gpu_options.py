"""Refuses ``--fp16`` without a GPU before anything is written.

fairseq-fixed 0.12.3.1 makes the save folder, then ends in torch's ``Torch not compiled with CUDA
enabled``.
"""

from pathlib import Path

import torch
from fairseq.distributed import utils

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(utils, "call_main")
def refuse_fp16_on_a_cpu(call, cfg, main, **kwargs):
    """Check a training's precision, then start it."""
    trains = Path(getattr(main, "__code__", call.__code__).co_filename).name == "train.py"
    if trains and (cfg.common.cpu or not torch.cuda.is_available()):
        for name in ("fp16", "memory_efficient_fp16"):
            if getattr(cfg.common, name):
                raise OptionError(
                    f"--{name.replace('_', '-')}: needs a GPU; leave it out, or give --bf16"
                )
    return call(cfg, main, **kwargs)
