"""A training that goes on: its place in the epoch, its end, and how much an update is."""

import logging
import math
from contextlib import contextmanager

from fairseq.data.iterators import EpochBatchIterator

logger = logging.getLogger(__name__)


def note_processes(state: dict) -> None:
    """Write beside the place in the epoch, in a loaded checkpoint, how many processes there were.

    The place counts the batches of one of them. fairseq hands it on from the process that reads
    the file to the others, and the options, which have the number, not.
    """
    place = (state.get("extra_state") or {}).get("train_iterator")
    if place is not None:
        options = (state.get("cfg") or {}).get("distributed_training") or {}
        place["processes"] = options.get("distributed_world_size")


@contextmanager
def same_place(cfg):
    """Let fairseq go on at the place in the data, whatever the number of processes.

    fairseq goes on after as many batches a process: with more processes it ends in an error or
    leaves data out, with fewer it reads some twice.

    Args:
        cfg: the configuration of the training, by groups.
    """
    load = EpochBatchIterator.load_state_dict

    def load_rescaled(self, place: dict) -> None:
        before, now = place.get("processes"), cfg.distributed_training.distributed_world_size
        batches = place.get("iterations_in_epoch", 0)
        if before and before != now and batches:
            of_epochs = cfg.optimization.update_freq
            # An update begins with all its batches: at an epoch's end there may be no others.
            whole = of_epochs[min(place["epoch"], len(of_epochs)) - 1]
            rescaled = batches * before // now // whole * whole
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


def stop_if_done(trainer, path: str) -> None:
    """Let a training that has all its updates end: fairseq would make one more, and save it.

    Args:
        trainer: fairseq's, with the checkpoint loaded.
        path: the checkpoint.
    """
    optimization = trainer.cfg.optimization
    if 0 < optimization.max_update <= trainer.get_num_updates():
        logger.warning(
            "%s has all %s updates of --max-update: nothing is left to train; for another training "
            "name another --save-dir",
            path,
            f"{optimization.max_update:,}",
        )
        optimization.stop_min_lr = math.inf  # the one thing that fairseq looks at beforehand


def say_batch(cfg) -> None:
    """Say what an update takes of all processes together; fairseq says it of one batch."""
    batch, frequency = cfg.dataset.max_tokens, cfg.optimization.update_freq
    if batch is not None:
        processes = cfg.distributed_training.distributed_world_size
        logger.info(
            "an update takes up to %s tokens: max tokens %d x update freq %d x processes %d",
            f"{batch * max(frequency) * processes:,}",
            *(batch, max(frequency), processes),
        )
