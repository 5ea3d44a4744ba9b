"""Keeps the checkpoint of an update at which an epoch ends.

fairseq-fixed 0.12.3.1 writes none there (facebookresearch/fairseq#2230): with
``--save-interval-updates`` equal to an epoch's updates, not one is left.
"""

import os

from fairseq import checkpoint_utils

from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(checkpoint_utils, "save_checkpoint")
def save_update_too(save, cfg, trainer, epoch_itr, val_loss):
    """Save as fairseq does, and at the end of an epoch also for ``--save-interval-updates``."""
    saved = save(cfg, trainer, epoch_itr, val_loss)
    updates, interval = trainer.get_num_updates(), cfg.save_interval_updates
    if saved is None or interval <= 0 or updates % interval or not epoch_itr.end_of_epoch():
        return saved
    suffix = trainer.checkpoint_suffix
    name = f"checkpoint_{epoch_itr.epoch}_{updates}{suffix}.pt"
    files = checkpoint_utils.PathManager
    files.copy(saved, os.path.join(cfg.save_dir, name), overwrite=True)
    if cfg.keep_interval_updates > 0:
        pattern = rf"checkpoint_\d+_(\d+){suffix}\.pt"
        found = checkpoint_utils.checkpoint_paths(cfg.save_dir, pattern, keep_match=True)
        every = cfg.keep_interval_updates_pattern
        kept = [path for path, number in found if every == -1 or number % every]
        for path in kept[cfg.keep_interval_updates :]:
            files.rm(path)
    return saved
