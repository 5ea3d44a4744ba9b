"""The best checkpoints, by any score.

``--keep-best-checkpoints`` by a score below zero, such as the value of a term: fairseq finds what
it has kept by the score in the file's name, and its pattern knows no minus sign; nothing was found,
so that every checkpoint better than all before it stayed.

A score that is no number, as of a validation that overflows in half precision: fairseq takes the
smaller of it and the best so far, which is neither, so that the next checkpoint, however bad,
replaced the best. Here it is the worst there can be, and its checkpoint is none of those that
``--keep-best-checkpoints`` keeps, nor is that of an infinite one: the score in its name would be
no number that fairseq finds.
"""

import functools
import math

from fairseq import checkpoint_utils


def install() -> None:
    """Wrap the functions with which fairseq finds and saves checkpoints."""
    find = checkpoint_utils.checkpoint_paths

    @functools.wraps(find)
    def find_signed(path, pattern=r"checkpoint(\d+)\.pt", **kwargs):
        return find(path, pattern.replace(r"(\d+\.?\d*)", r"(-?\d+\.?\d*)"), **kwargs)

    checkpoint_utils.checkpoint_paths = find_signed
    save = checkpoint_utils.save_checkpoint

    @functools.wraps(save)
    def save_by_number(cfg, trainer, epoch_itr, val_loss):
        if val_loss is None or math.isfinite(val_loss):
            return save(cfg, trainer, epoch_itr, val_loss)
        worst = -math.inf if cfg.maximize_best_checkpoint_metric else math.inf
        kept, cfg.keep_best_checkpoints = cfg.keep_best_checkpoints, 0
        try:
            return save(cfg, trainer, epoch_itr, worst)
        finally:
            cfg.keep_best_checkpoints = kept

    checkpoint_utils.save_checkpoint = save_by_number
