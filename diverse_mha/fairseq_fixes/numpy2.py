"""Options of fairseq that need what numpy 2 has not got.

fairseq-fixed 0.12.3.1 ends in a TypeError with ``--num-batch-buckets``, and in an AttributeError
with ``--sample-break-mode eos``.
"""

import types

import numpy as np
from fairseq.data import bucket_pad_length_dataset, data_utils


def bucket_sizes(sizes, num_buckets: int) -> np.ndarray:
    """Cut sizes into buckets of about as many; returns the largest of each, without repeats.

    For ``--num-batch-buckets`` fairseq asks for ``percentile(interpolation=...)``, which numpy 2
    has not got.
    """
    shares = np.linspace(0, 100, num_buckets + 1)[1:]
    return np.unique(np.percentile(sizes, shares, method="lower"))


data_utils.get_buckets = bucket_pad_length_dataset.get_buckets = bucket_sizes
if not hasattr(np, "compat"):
    np.compat = types.SimpleNamespace(long=int)
