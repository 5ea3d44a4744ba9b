"""Writes ``status.json``: updates, epochs, end, divergence and best score of a training.

fairseq-fixed 0.12.3.1 writes these values only to its log, as text.
"""

from dataclasses import replace
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from diverse_mha.common.errors import UserError, describe_os_error
from diverse_mha.common.status import Status, read_status
from diverse_mha.fairseq_fixes.patch import patch, patch_training


def record(trainer, epochs, *, finished: bool = False) -> None:
    """Write the status of a training; ``epochs`` is fairseq's epoch iterator."""
    best = getattr(checkpoint_utils.save_checkpoint, "best", None)
    status = Status(
        trainer.get_num_updates(),
        epochs.next_epoch_idx - 1,
        finished,
        best=None if best is None else float(best),
    )
    _write(trainer, status)


def record_divergence(trainer) -> None:
    """Record that the gradients of the next update are NaN or infinite."""
    folder, updates = Path(trainer.cfg.checkpoint.save_dir), trainer.get_num_updates()
    before = read_status(folder) or Status(updates, None)
    _write(trainer, replace(before, updates=updates, diverged=True))


def record_ends() -> None:
    """Patch fairseq's ``train``, which trains an epoch, to record the status after it."""
    patch_training("train", train_and_record)


def train_and_record(train, cfg, trainer, task, epoch_itr):
    """Train an epoch, then record the status, with ``finished`` if the training has ended."""
    losses, stopped = train(cfg, trainer, task, epoch_itr)
    wanted = cfg.optimization
    complete = 0 < wanted.max_update <= trainer.get_num_updates()
    out_of_time = 0 < wanted.stop_time_hours < trainer.cumulative_training_time() / 3600
    finished = complete or not out_of_time if stopped else 0 < wanted.max_epoch <= epoch_itr.epoch
    record(trainer, epoch_itr, finished=finished)
    return losses, stopped


@patch(Trainer, "lr_step")
def step_and_record(step, self, epoch, val_loss=None):
    """Update the learning rate; if it falls to ``--stop-min-lr``, record the end of training."""
    rate = step(self, epoch, val_loss)
    status = read_status(Path(self.cfg.checkpoint.save_dir))
    if status is not None and rate <= self.cfg.optimization.stop_min_lr:
        _write(self, replace(status, finished=True))
    return rate


@patch(checkpoint_utils, "save_checkpoint")
def save_and_record(save, cfg, trainer, epoch_itr, val_loss):
    """Save as fairseq does, then write the status."""
    saved = save(cfg, trainer, epoch_itr, val_loss)
    record(trainer, epoch_itr)
    return saved


def _write(trainer, status: Status) -> None:
    """Write a status beside the checkpoints, in the first process only."""
    folder = trainer.cfg.checkpoint.save_dir
    if trainer.cfg.checkpoint.no_save or not trainer.is_data_parallel_master:
        return
    if PathManager.supports_rename(folder):
        try:
            status.write(Path(folder))
        except OSError as error:
            raise UserError(f"status not saved: {describe_os_error(error)}") from error
