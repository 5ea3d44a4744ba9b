"""Logs the length of a training and the time left, which fairseq-fixed 0.12.3.1 does not."""

import logging
import math
import time

logger = logging.getLogger(__name__)

NOTHING_LEFT = "nothing is left to train"  # in the last line of a complete run
MEASURED = 100  # updates before the time left is logged
_WARM_UP = 10  # first updates, not measured


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


def _time(trainer, begun: int, end: int) -> None:
    """Let a trainer log the time left, once."""
    step, since = trainer.train_step, []

    def timed(*args, **kwargs):
        result = step(*args, **kwargs)
        done, now = trainer.get_num_updates(), time.monotonic()
        if not since and done >= begun + _WARM_UP:
            since.extend((done, now))
        elif done >= begun + MEASURED:
            trainer.train_step = step
            if done >= end:
                return result
            seconds = (now - since[1]) / (done - since[0])
            text = "%.2f s an update: about %s left for %s updates"
            logger.info(text, seconds, duration(seconds * (end - done)), f"{end - done:,}")
        return result

    trainer.train_step = timed
