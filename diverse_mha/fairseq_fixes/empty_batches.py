"""Empty batches of several processes: they count nothing, and the batches beside them count.

fairseq shares out the batches of an epoch, and pads a process's share with an empty batch. The
process then computes a dummy batch, whose loss it multiplies by zero. fairseq-fixed 0.12.3.1 (and
fairseq from 0.10 on) asks only for the last batch of an update whether it is a dummy. With
``--update-freq`` above 1, it drops the sample size and the logged values of the real batches before
it, but keeps their gradients: the last update of an epoch has too large a gradient, and logs the
loss of some batches only. This came with fairseq's commit d7b0bf7e (February 2020); we know of no
report. After a validation within an epoch, fairseq takes the dummy batch from validation, where
batches may be too large for the memory of training. In several processes, fairseq-validate fails at
an empty batch (``KeyError: 'net_input'``).
"""

import torch
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from diverse_mha.fairseq_fixes.patch import patch, patched


@patch(Trainer, "train_step")
def count_real_batches(original, self, samples, *args, **kwargs):
    """Make an update from the batches that are not empty.

    Every process keeps its number of batches, because FSDP communicates in each of them. The empty
    ones go first, so that fairseq takes the update for one of real batches.
    """
    empty = [sample for sample in samples if not sample]
    if not empty:
        return original(self, samples, *args, **kwargs)
    self.reset_dummy_batch(vars(self).get("training_dummy_batch", self._dummy_batch))
    real = [sample for sample in samples if sample]
    step = self.task.train_step

    def counted(*args, ignore_grad=False, **kwargs):
        loss, sample_size, log = step(*args, ignore_grad=ignore_grad, **kwargs)
        if ignore_grad:
            sample_size, log = _zero(sample_size), {key: _zero(value) for key, value in log.items()}
        return loss, sample_size, log

    with patched(self.task, "train_step", counted):
        return original(self, [*empty, *real], *args, **kwargs)


def _zero(value):
    return torch.zeros_like(value) if torch.is_tensor(value) else type(value)()


@patch(Trainer, "get_valid_iterator")
def keep_dummy_batch_of_training(original, self, *args, **kwargs):
    """Return fairseq's iterator, which replaces the dummy batch; keep that of training."""
    vars(self).setdefault("training_dummy_batch", self._dummy_batch)
    return original(self, *args, **kwargs)


@patch(Trainer, "get_train_iterator")
def renew_dummy_batch_of_training(original, self, *args, **kwargs):
    """Return fairseq's iterator, which brings a new dummy batch."""
    vars(self).pop("training_dummy_batch", None)
    return original(self, *args, **kwargs)


def _skip_empty_batch(original, self, sample, *args, **kwargs):
    """Return the loss of a batch; zero and no logged values for an empty one."""
    return original(self, sample, *args, **kwargs) if sample else (0, 0, {})


# fairseq's translation validates by BLEU too.
for task in (FairseqTask, TranslationTask):
    patch(task, "valid_step")(_skip_empty_batch)
