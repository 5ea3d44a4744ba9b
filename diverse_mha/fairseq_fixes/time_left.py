"""Logs the length of a training and the time left, which fairseq-fixed 0.12.3.1 does not."""

import logging
import math
import time

logger = logging.getLogger(__name__)

NOTHING_LEFT = "nothing is left to train"  # in the last line of a complete run
MEASURED = (5, 100)  # updates after which the time left is logged
_WARM_UP = 2  # first updates, not measured


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def say_length(trainer, epochs) -> None:
    """Log how many updates and epochs are left and, after some updates, the time left.

    Args:
        trainer: fairseq's, at its starting point.
        epochs: fairseq's iterator of epochs, at the same point.
    """
    wanted, done = trainer.cfg.optimization, trainer.get_num_updates()
    frequencies = wanted.update_freq
    frequency = frequencies[min(epochs.next_epoch_idx, len(frequencies)) - 1]
    an_epoch = math.ceil(len(epochs) / frequency)
    ends = [wanted.max_update] if wanted.max_update > 0 else []
    if wanted.max_epoch > 0:
        of_this = math.ceil(epochs.iterations_in_epoch / frequency) % an_epoch
        ends.append(done + (wanted.max_epoch - epochs.next_epoch_idx + 1) * an_epoch - of_this)
    if not ends:
        logger.info(
            "to train: epochs of %s updates; neither max update nor max epoch ends them",
            f"{an_epoch:,}",
        )
        return
    left = min(ends) - done
    if left <= 0:
        return
    text = "to train: %s updates, %.1f epochs of %s updates"
    logger.info(text, f"{left:,}", left / an_epoch, f"{an_epoch:,}")
    _time(trainer, done, min(ends))


def batch_of(cfg, epoch: int) -> str:
    """Describe what an update of a training takes at most."""
    frequencies = cfg.optimization.update_freq
    frequency = frequencies[min(epoch, len(frequencies)) - 1]
    processes = cfg.distributed_training.distributed_world_size
    limits = {"tokens": cfg.dataset.max_tokens, "examples": cfg.dataset.batch_size}
    sizes = [f"{n * processes * frequency:,} {unit}" for unit, n in limits.items() if n]
    plural = "" if processes == 1 else "es"
    return f"{' and '.join(sizes)} ({processes} process{plural}, update_freq {frequency})"


def say_batch(cfg, epoch: int, before=None) -> None:
    """Log the batch of an update; ``before`` are the options of the run that is resumed."""
    now = batch_of(cfg, epoch)
    logger.info("an update takes up to %s", now)
    if before and "optimization" in before and (then := batch_of(before, epoch)) != now:
        logger.warning(
            "an update of this run took up to %s until now; the learning rate stays", then
        )


def _time(trainer, begun: int, end: int) -> None:
    """Let a trainer log the time left after the updates in ``MEASURED``."""
    step, since, wanted = trainer.train_step, [], [begun + updates for updates in MEASURED]

    def timed(*args, **kwargs):
        result = step(*args, **kwargs)
        done, now = trainer.get_num_updates(), time.monotonic()
        if not since and done >= begun + _WARM_UP:
            since.extend((done, now))
        elif done >= wanted[0]:
            while wanted and done >= wanted[0]:
                wanted.pop(0)
            if not wanted or done >= end:
                trainer.train_step = step
            if done >= end:
                return result
            seconds = (now - since[1]) / (done - since[0])
            text = "%.2f s an update: about %s left for %s updates"
            logger.info(text, seconds, duration(seconds * (end - done)), f"{end - done:,}")
        return result

    trainer.train_step = timed
