"""Applies all patches in this order. Of two patches of a function, the later wraps the earlier.

Guards come last, so that they check before a mend does anything.
"""

from diverse_mha.fairseq_fixes import (  # noqa: F401, I001
    dictionaries,
    checkpoints,
    status,
    moving_average,
    batches,
    empty_batches,
    log,
    loss_scale,
    resuming,
    numpy_2,
    plasma,
    speed,
    slow_calls,
    guards,
    long_examples,
)

checkpoints.install()
