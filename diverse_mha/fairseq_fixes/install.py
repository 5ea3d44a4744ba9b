"""Applies all patches in this order. Of two patches of a function, the later wraps the earlier."""

from diverse_mha.fairseq_fixes import (  # noqa: F401, I001
    checkpoints,
    status,
    moving_average,
    batches,
    empty_batches,
    log,
    loss_scale,
    resuming,
    command_line,
    numpy_2,
    speed,
)

checkpoints.install()
