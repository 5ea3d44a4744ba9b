"""Resuming a run: the position in the epoch, and the end of the training.

With another number of processes, or other batches, fairseq-fixed 0.12.3.1 skips or repeats data.
It makes one update more of a run that is complete.
"""

import logging
from contextlib import contextmanager

from fairseq.data.iterators import EpochBatchIterator

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.time_left import NOTHING_LEFT

logger = logging.getLogger(__name__)


@contextmanager
def same_place(cfg):
    """Let fairseq resume at the same position in the data with any number of processes.

    Raises:
        OptionError: within an epoch, if an option in ``LIMITS`` has changed.
    """
    load = EpochBatchIterator.load_state_dict

    def load_rescaled(self, place: dict) -> None:
        batches = place.get("iterations_in_epoch", 0)
        if batches:
            for name, before in place.get("limits", {}).items():
                now = getattr(cfg.dataset, name)
                if before != now:
                    given = f"{flag(name)} {now}" if now is not None else f"no {flag(name)}"
                    cure = f"give {flag(name)} {before}" if before is not None else "leave it out"
                    raise OptionError(
                        f"{given}: not as the epoch was begun; {cure}, or --reset-dataloader"
                    )
        now = cfg.distributed_training.distributed_world_size
        before = place.get("processes") or now
        of_epochs = cfg.optimization.update_freq
        # Resume at the first batch of an update.
        whole = of_epochs[min(place["epoch"], len(of_epochs)) - 1]
        rescaled = batches * before // now // whole * whole
        if rescaled != batches:
            logger.info(
                "processes: %d in the checkpoint, now %d; each goes on after %d batches of the "
                "epoch, not %d",
                *(before, now, rescaled, batches),
            )
            place = place | {"iterations_in_epoch": rescaled}
        load(self, place)

    EpochBatchIterator.load_state_dict = load_rescaled
    try:
        yield
    finally:
        EpochBatchIterator.load_state_dict = load


def stop_if_done(trainer, path: str, state: dict | None, epochs) -> None:
    """End a training that has all its updates or epochs, and say so in its last line."""
    wanted = trainer.cfg.optimization
    if 0 < wanted.max_update <= trainer.get_num_updates():
        done = f"all {wanted.max_update:,} updates"
    elif state is not None and 0 < wanted.max_epoch < epochs.next_epoch_idx:
        done = f"all {wanted.max_epoch:,} epochs"
    else:
        return
    wanted.max_epoch = -1  # skips the loop over epochs
    text = f"{path} has {done}: {NOTHING_LEFT}; for another training choose another save dir"
    log = logging.getLogger("fairseq_cli.train")

    def instead(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith("done training in "):
            record.msg, record.args = text, ()
            log.removeFilter(instead)
        return True

    log.addFilter(instead)
