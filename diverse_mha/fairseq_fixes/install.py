"""Puts all fixes in place, in this order: of two in the same place the later is asked first."""

from diverse_mha.fairseq_fixes import (  # noqa: F401, I001
    alignment_options,
    checkpoint_guard,
    diverse_beams,
    missing_options,
    moving_average,
    scored_blocks,
    whole_epochs,
    safe_loading,
    whole_files,
    start_of_training,
    whole_splits,
    command_line,
    noise,
    memory,
    cudnn_attention,
)

checkpoint_guard.install()
