"""Silences warnings of fairseq-fixed 0.12.3.1 about its own use of Hydra and torch.

Hydra shortens tracebacks, and so prints one for our one-line errors, unless told not to.
"""

import os
import warnings

for category, where in (
    (UserWarning, {"module": r"hydra\."}),
    (UserWarning, {"message": r"\s*'config' is validated against ConfigStore schema"}),
    (FutureWarning, {"message": r"`torch\.cuda\.amp\."}),
    (UserWarning, {"message": r"'pin_memory' argument is set as true but no accelerator"}),
    (UserWarning, {"message": r"Support for mismatched key_padding_mask and attn_mask"}),
):
    warnings.filterwarnings("ignore", category=category, **where)
os.environ.setdefault("HYDRA_FULL_ERROR", "1")
