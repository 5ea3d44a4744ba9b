"""Resuming a run: position in the epoch, state of the task, stopping point.

fairseq-fixed 0.12.3.1 skips or repeats data if the number of processes or the batches have changed.
It makes one more update when a complete run is resumed. In a sweep of several trainings in one
process, it keeps the best score of the training before.
"""

import logging
from contextlib import contextmanager, nullcontext

from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator

from diverse_mha.common.errors import Option, UserError
from diverse_mha.fairseq_fixes.best_metric import check_validations
from diverse_mha.fairseq_fixes.dictionaries import Read, check_start_dictionaries, noted_in
from diverse_mha.fairseq_fixes.log import say_batch, say_length
from diverse_mha.fairseq_fixes.patch import patch, patched, training_programs
from diverse_mha.fairseq_fixes.same_run import (
    FINETUNE,
    check_pruned_heads,
    check_start,
    compare_runs,
    say_changes,
)
from diverse_mha.fairseq_fixes.status import record, record_ends

logger = logging.getLogger(__name__)


@contextmanager
def resume_position(cfg):
    """Context manager: resume at the same position in the data with any number of processes.

    Raises:
        UserError: the position is within an epoch, and an option in ``LIMITS`` has changed.
    """
    load = EpochBatchIterator.load_state_dict

    def load_rescaled(self, position: dict) -> None:
        batches = position.get("iterations_in_epoch", 0)
        if batches:
            for name, before in position.get("limits", {}).items():
                now = getattr(cfg.dataset, name)
                if before != now:
                    cure = ["leave it out"] if before is None else ["give ", Option(name, before)]
                    raise UserError(
                        "no " if now is None else "", Option(name, now),
                        ": changed within an epoch; ", *cure,
                        ", or ", Option("reset_dataloader", True),
                    )  # fmt: skip
        now = cfg.distributed_training.distributed_world_size
        before = position.get("processes") or now
        of_epochs = cfg.optimization.update_freq
        # Resume at the first batch of an update.
        whole = of_epochs[min(position["epoch"], len(of_epochs)) - 1]
        rescaled = batches * before // now // whole * whole
        if rescaled != batches:
            logger.info(
                "processes: %d in the checkpoint, now %d; each continues after %d batches of the "
                "epoch, not %d",
                *(before, now, rescaled, batches),
            )
            position = position | {"iterations_in_epoch": rescaled}
        load(self, position)

    with patched(EpochBatchIterator, "load_state_dict", load_rescaled):
        yield


def stop_if_done(trainer, path: str, state: dict | None, epochs) -> bool:
    """Return True if nothing is left to train.

    After all updates or epochs, make fairseq skip its loop over epochs. If the learning rate is not
    above ``--stop-min-lr``, fairseq stops without this.
    """
    wanted = trainer.cfg.optimization
    if 0 < wanted.max_update <= trainer.get_num_updates():
        done = f"all {wanted.max_update:,} updates"
    elif state is not None and 0 < wanted.max_epoch < epochs.next_epoch_idx:
        done = f"all {wanted.max_epoch:,} epochs"
    else:
        return trainer.get_lr() <= wanted.stop_min_lr
    wanted.max_epoch = -1  # skips the loop over epochs
    text = "%s has %s: nothing is left to train; for a new training, choose another folder"
    logger.info(text, path, done)
    return True


@patch(checkpoint_utils, "load_checkpoint")
def check_and_load(load, cfg, trainer, **passed):
    """Check the checkpoint to start from, then load it.

    A checkpoint to fine-tune may lack the parameters of our methods
    (:mod:`diverse_mha.models.base`).
    """
    criterion = trainer.get_criterion()
    # A sweep runs several trainings in one process: forget the best score and --patience's count.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for program in training_programs():
        if stop := getattr(program, "should_stop_early", None):
            vars(stop).clear()
    option, path = check_start(
        cfg.save_dir,
        cfg.restore_file,
        cfg.finetune_from_model,
        getattr(cfg, "continue_once", None),
        suffix=trainer.checkpoint_suffix or "",
    )
    if hasattr(criterion, "begin_training"):
        criterion.begin_training(trainer.get_model())
    loading = getattr(trainer.get_model(), "loading", None)
    reads: dict[str, Read] = {}
    try:
        warm = loading(path, warm=option == FINETUNE) if loading else nullcontext()
        with warm, resume_position(trainer.cfg), noted_in(reads):
            loaded = load(cfg, trainer, **passed)
    except Exception as error:
        # Changed options or dictionaries are the likely cause of the error: report them instead.
        if read := reads.get(path):
            if read.cfg:
                check_pruned_heads(path, read.cfg, trainer.cfg)
            compare_runs(trainer, option, path, read, fits=False)
            if read.dictionaries:
                check_start_dictionaries(trainer, option, path, read.dictionaries)
        if isinstance(error, AssertionError) and "please reset the optimizer" in str(error):
            raise UserError(f"{path}: {error}") from error
        raise
    state = (loaded[0] or {}).get(type(trainer.task).__name__)
    # fairseq restores the state of a task only with the position. Ours holds float32 weights.
    if state and cfg.reset_dataloader and getattr(trainer.task, "state_is_of_weights", False):
        trainer.task.set_checkpoint_dict(state)
    read = reads.get(path)
    say_changes(path, compare_runs(trainer, option, path, read))
    if read is not None:
        check_start_dictionaries(trainer, option, path, read.dictionaries)
    finished = stop_if_done(trainer, path, *loaded)
    record(trainer, loaded[1], finished=finished)
    record_ends()
    check_validations()
    before = read.cfg if option is None and read is not None else None
    say_batch(trainer.cfg, loaded[1].next_epoch_idx, before)
    if not finished:
        say_length(trainer, loaded[1])
    return loaded
