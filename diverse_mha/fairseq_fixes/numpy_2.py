"""Restores names that numpy has removed, for fairseq's datasets.

In fairseq-fixed 0.12.3.1, ``--sample-break-mode eos`` fails with ``module 'numpy' has no attribute
'compat'``, and ``--num-batch-buckets`` with ``unexpected keyword argument 'interpolation'``.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset


class _Numpy(ModuleType):
    """numpy, with the removed names that fairseq uses."""

    compat = SimpleNamespace(long=int)
    int, float = int, float

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def percentile(*args, interpolation: str = "linear", **kwargs) -> np.ndarray:
        """Call ``numpy.percentile``, which has renamed ``interpolation`` to ``method``."""
        return np.percentile(*args, **{"method": interpolation} | kwargs)


for module in (data_utils, language_pair_dataset, token_block_dataset):
    vars(module).update(np=_Numpy("numpy"))
