"""Warnings of fairseq's own use of Hydra and torch, which users cannot mend.

fairseq-fixed 0.12.3.1 prints some ten lines of them in every run. Hydra cuts tracebacks, and so
prints one where an error of ours is a single line.
"""

import os
import warnings


def quiet_fairseq() -> None:
    """Silence what every run says of fairseq's own use of Hydra and torch; users cannot mend it."""
    for category, where in (
        (UserWarning, {"module": r"hydra\."}),
        (UserWarning, {"message": r"\s*'config' is validated against ConfigStore schema"}),
        (FutureWarning, {"message": r"`torch\.cuda\.amp\."}),
        (UserWarning, {"message": r"'pin_memory' argument is set as true but no accelerator"}),
        (UserWarning, {"message": r"Support for mismatched key_padding_mask and attn_mask"}),
    ):
        warnings.filterwarnings("ignore", category=category, **where)


quiet_fairseq()
os.environ.setdefault("HYDRA_FULL_ERROR", "1")
