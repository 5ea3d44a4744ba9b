"""Batches: every example of a split and of an epoch is used.

fairseq-fixed 0.12.3.1 drops the last batch of a split if its size is not a multiple of
``--required-batch-size-multiple``. In training, this batch has the longest examples; keeping it
changes the order of the others. fairseq's diverse beam search stores scores by row of the batch but
looks them up by sentence number, so it fails with an IndexError.
"""

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.search import DiverseBeamSearch
from fairseq.tasks import FairseqTask

from diverse_mha.fairseq_fixes.patch import patch


@patch(FairseqTask, "get_batch_iterator")
def keep_whole_split(original, self, dataset, **settings):
    """Keep all sentences of a validation or test split, in the same batches in every pass."""
    # fairseq's Trainer passes this argument for the training subset only.
    if "grouped_shuffling" in settings:
        return original(self, dataset, **settings)
    settings["required_batch_size_multiple"] = 1
    rebuilt = getattr(self.cfg, "rebuild_batches", None)
    if rebuilt:
        self.cfg.rebuild_batches = False
    try:
        return original(self, dataset, **settings)
    finally:
        if rebuilt:
            self.cfg.rebuild_batches = rebuilt


@patch(FairseqDataset, "batch_by_size")
def keep_last_batch(original, self, indices, *args, **limits):
    """Return fairseq's batches, and the examples that fairseq dropped as a further batch."""
    indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = list(original(self, indices, *args, **limits)) if len(indices) else []
    rest = indices[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches


@patch(DiverseBeamSearch, "step")
def find_rows(original, self, step, lprobs, scores, previous=None, original_batch_idxs=None):
    """Run a search step, with rows of the first step's batch instead of sentence numbers."""
    numbers = original_batch_idxs
    if numbers is not None:
        if step == 0:
            self.first_numbers = numbers
        same = numbers.unsqueeze(1).eq(self.first_numbers)  # (rows left, rows at first)
        original_batch_idxs = same.int().argmax(dim=1)
    return original(self, step, lprobs, scores, previous, original_batch_idxs)
