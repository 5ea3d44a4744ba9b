"""Applies all fixes in this order; of two that wrap the same function the later is outside."""

from diverse_mha.fairseq_fixes import (  # noqa: F401, I001
    checkpoints,
    moving_average,
    batches,
    resuming,
    command_line,
    log,
    numpy_2,
    speed,
)

checkpoints.install()
