"""Refuses a checkpoint that holds NaN or infinity.

With it, a search ends in ``AssertionError: 200 < 200``, and a classifier always answers the first
class (fairseq-fixed 0.12.3.1).
"""

from collections.abc import Mapping

import torch

from diverse_mha.common.errors import OptionError


def check_finite(path: str, model: Mapping | None) -> None:
    """Refuse a model with a parameter that is not finite."""
    for name, value in (model or {}).items():
        if torch.is_tensor(value) and not bool(value.isfinite().all()):
            raise OptionError(
                f"{path}: parameter {name} holds NaN or infinity; take a checkpoint from before "
                "the training diverged"
            )
