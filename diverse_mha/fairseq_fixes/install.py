"""Applies all fixes in this order; of two that wrap the same function the later is outside."""

from diverse_mha.fairseq_fixes import (  # noqa: F401, I001
    alignment_options,
    checkpoint_guard,
    missing_options,
    moving_average,
    scored_blocks,
    whole_epochs,
    safe_loading,
    whole_files,
    update_checkpoints,
    start_of_training,
    whole_splits,
    command_line,
    diverged,
    noise,
    numpy_2,
    memory,
    cudnn_attention,
    half_precision,
    gpu_options,
)

checkpoint_guard.install()
