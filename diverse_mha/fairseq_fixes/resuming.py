"""A training that goes on: its place in the epoch, and its end.

fairseq-fixed 0.12.3.1 leaves data out, or reads some twice, with another number of processes or
other batches, and makes an update more of a run that has all of them.
"""

import logging
from contextlib import contextmanager

from fairseq.data.iterators import EpochBatchIterator

from diverse_mha.common.errors import OptionError
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes.time_left import NOTHING_LEFT

logger = logging.getLogger(__name__)
#: What the batches of an epoch depend on, beside the data and the seed.
LIMITS = ("max_tokens", "batch_size", "required_batch_size_multiple")


def note_processes(state: dict) -> None:
    """Write beside the place in the epoch, in a loaded checkpoint, how its batches were cut.

    The place counts the batches of one of the processes. fairseq hands it on from the process that
    reads the file to the others, and the options not.
    """
    place = (state.get("extra_state") or {}).get("train_iterator")
    if place is not None:
        cfg = state.get("cfg") or {}
        place["processes"] = (cfg.get("distributed_training") or {}).get("distributed_world_size")
        dataset = cfg.get("dataset") or {}
        place["limits"] = {name: dataset[name] for name in LIMITS if name in dataset}


@contextmanager
def same_place(cfg):
    """Let fairseq go on at the place in the data, whatever the number of processes.

    fairseq goes on after as many batches a process: with more processes it leaves data out, with
    fewer it reads some twice. Within an epoch other batches are refused, as it would misplace them.
    """
    load = EpochBatchIterator.load_state_dict

    def load_rescaled(self, place: dict) -> None:
        batches = place.get("iterations_in_epoch", 0)
        if batches:
            for name, before in place.get("limits", {}).items():
                now = getattr(cfg.dataset, name)
                if before != now:
                    raise OptionError(
                        f"{flag(name)} {now}: the epoch was begun with {before}; give that, or "
                        "--reset-dataloader"
                    )
        now = cfg.distributed_training.distributed_world_size
        before = place.get("processes") or now
        of_epochs = cfg.optimization.update_freq
        # An update begins with all its batches: at an epoch's end there may be no others.
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
    """Let a training that has all its updates or epochs end, and say so in its last line.

    fairseq would make one more update, and save it; of the epochs it says nothing.
    """
    wanted = trainer.cfg.optimization
    if 0 < wanted.max_update <= trainer.get_num_updates():
        done = f"all {wanted.max_update:,} updates"
    elif state is not None and 0 < wanted.max_epoch < epochs.next_epoch_idx:
        done = f"all {wanted.max_epoch:,} epochs"
    else:
        return
    wanted.max_epoch = -1  # the loop over epochs is not entered
    text = f"{path} has {done}: {NOTHING_LEFT}; for another training choose another save dir"
    log = logging.getLogger("fairseq_cli.train")

    def instead(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith("done training in "):
            record.msg, record.args = text, ()
            log.removeFilter(instead)
        return True

    log.addFilter(instead)
