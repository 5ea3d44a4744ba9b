"""Training log: length and time left, invalid gradients by name, no spurious warnings.

fairseq-fixed 0.12.3.1 does not log the time left, and triggers warnings of Hydra and torch. On NaN
or infinite gradients (in float16, at the smallest loss scale), fairseq logs all gradients and runs
the batch again with hooks, which fail at an encoder's output with torch's ``StopIteration``.
"""

import logging
import math
import time
import warnings

from fairseq import nan_detector

from diverse_mha.common.progress import counted
from diverse_mha.fairseq_fixes.patch import patch

logger = logging.getLogger(__name__)

MEASURED = (5, 100)  # numbers of updates after which the time left is logged
_WARM_UP = 2  # number of first updates that are not timed


def duration(seconds: float) -> str:
    """Return a duration as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def say_length(trainer, epochs) -> None:
    """Log how many updates and epochs are left and, after some updates, the time left.

    Args:
        trainer: fairseq's trainer, before the first update.
        epochs: fairseq's epoch iterator, at the same position.
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
            "to train: epochs of %s; neither max update nor max epoch ends them",
            counted(an_epoch, "update"),
        )
        return
    left = min(ends) - done
    if left <= 0:
        return
    text = "to train: %s, %.1f epochs of %s"
    logger.info(text, counted(left, "update"), left / an_epoch, counted(an_epoch, "update"))
    _log_time_left(trainer, done, min(ends))


def batch_of(cfg, epoch: int) -> str:
    """Return the maximum batch of an update in ``epoch`` as text."""
    frequencies = cfg.optimization.update_freq
    frequency = frequencies[min(epoch, len(frequencies)) - 1]
    processes = cfg.distributed_training.distributed_world_size
    limits = {"tokens": cfg.dataset.max_tokens, "examples": cfg.dataset.batch_size}
    sizes = [f"{n * processes * frequency:,} {unit}" for unit, n in limits.items() if n]
    return f"{' and '.join(sizes)} ({counted(processes, 'process')}, update_freq {frequency})"


def say_batch(cfg, epoch: int, before=None) -> None:
    """Log the batch of an update; ``before`` holds the options in the resumed checkpoint."""
    now = batch_of(cfg, epoch)
    logger.info("an update takes up to %s", now)
    if before and "optimization" in before and (then := batch_of(before, epoch)) != now:
        logger.warning("until now, an update took up to %s; the learning rate is not adapted", then)


def _log_time_left(trainer, begun: int, end: int) -> None:
    """Patch a trainer to log the time left after the updates in ``MEASURED``."""
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
                # A bound method in its place would keep the trainer's memory, by a cycle.
                vars(trainer).pop("train_step", None)
            if done >= end:
                return result
            seconds = (now - since[1]) / (done - since[0])
            left = duration(seconds * (end - done)), counted(end - done, "update")
            logger.info("%.2f s an update: about %s left for %s", seconds, *left)
        return result

    trainer.train_step = timed


warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.")
for category, message in (
    (UserWarning, r"\s*'config' is validated against ConfigStore schema"),
    (FutureWarning, r"`torch\.cuda\.amp\."),
    (UserWarning, r"'pin_memory' argument is set as true but no accelerator"),
    (UserWarning, r"Support for mismatched key_padding_mask and attn_mask"),
):
    warnings.filterwarnings("ignore", category=category, message=message)


SHOWN = 3  # maximum number of parameter names in a message


@patch(nan_detector.NanDetector, "add_hooks")
def hook_forward_pass_only(_, self, module):
    """Register forward hooks only, because fairseq's backward hooks fail."""
    self.fhooks.append(module.register_forward_hook(self.fhook_fn))


@patch(nan_detector.NanDetector, "__exit__")
def log_names_of_gradients(_, self, *error):
    """Log the names of parameters with NaN or infinite gradients, without the values."""
    grads = [(name, p.grad) for name, p in self.named_parameters if p.grad is not None]
    wrong = [name for name, grad in grads if not grad.isfinite().all()]
    if wrong:
        names = ", ".join(wrong[:SHOWN]) + (", ..." if wrong[SHOWN:] else "")
        nan_detector.logger.warning(
            "NaN or Inf in %s gradients of %s: %s", len(wrong), len(grads), names
        )
    self.close()
