"""The best checkpoints, by any score (fairseq-fixed 0.12.3.1).

``--keep-best-checkpoints`` by a score below zero, such as the value of a term: fairseq finds what
it has kept by the score in the file's name, and its pattern knows no minus sign; nothing was found,
so that every checkpoint better than all before it stayed.

A score that is no number, as of a validation that overflows in half precision: fairseq takes the
smaller of it and the best so far, which is neither, so that the next checkpoint, however bad,
replaced the best. Here it is the worst there can be, and its checkpoint is none of those that
``--keep-best-checkpoints`` keeps, nor is that of an infinite one: the score in its name would be
no number that fairseq finds.
"""

import math

from fairseq import checkpoint_utils

from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(checkpoint_utils, "checkpoint_paths")
def find_signed(find, path, pattern=r"checkpoint(\d+)\.pt", **kwargs):
    """Find checkpoints by what is in their names, also by a score below zero."""
    return find(path, pattern.replace(r"(\d+\.?\d*)", r"(-?\d+\.?\d*)"), **kwargs)


@in_place_of(checkpoint_utils, "save_checkpoint")
def save_by_number(save, cfg, trainer, epoch_itr, val_loss):
    """Save a checkpoint; a score that is no number is the worst."""
    if val_loss is None or math.isfinite(val_loss):
        return save(cfg, trainer, epoch_itr, val_loss)
    worst = -math.inf if cfg.maximize_best_checkpoint_metric else math.inf
    kept, cfg.keep_best_checkpoints = cfg.keep_best_checkpoints, 0
    try:
        return save(cfg, trainer, epoch_itr, worst)
    finally:
        cfg.keep_best_checkpoints = kept
