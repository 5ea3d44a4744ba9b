"""A model that became NaN, or infinite, said when its checkpoint is read.

fairseq goes on with it: a search ends in ``AssertionError: 200 < 200``, and a classifier's answers
are all the first class (fairseq-fixed 0.12.3.1).
"""

from collections.abc import Mapping

import torch

from diverse_mha.common.errors import OptionError


def check_finite(path: str, model: Mapping | None) -> None:
    """Refuse a model that holds numbers that are not finite."""
    for name, value in (model or {}).items():
        if torch.is_tensor(value) and not bool(value.isfinite().all()):
            raise OptionError(
                f"{path}: parameter {name} holds NaN or infinity; take a checkpoint from before "
                "the training diverged"
            )
