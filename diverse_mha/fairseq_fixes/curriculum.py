"""``--curriculum``, after its epochs.

fairseq-fixed 0.12.3.1 goes on in the order of the first epochs until it is started again.
"""

from fairseq.data import iterators

from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(iterators.EpochBatchIterator, "_get_iterator_for_epoch")
def shuffle_after_a_curriculum(get, self, epoch, shuffle, *args, **kwargs):
    """Let an epoch be shuffled, or not, as its number says.

    With ``--curriculum`` fairseq goes on in the order of its first epochs until it is started
    again.
    """
    if self.dataloader is not None:
        self.epoch_batch_sampler.shuffle = shuffle
    return get(self, epoch, shuffle, *args, **kwargs)
