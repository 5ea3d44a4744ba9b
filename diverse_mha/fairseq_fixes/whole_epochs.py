"""Every example is trained on in every epoch, a language model's blocks too.

fairseq-fixed 0.12.3.1 drops the last batch of an epoch if its size is not a multiple of
``--required-batch-size-multiple`` (8 by default). Batches are cut in the order of length, so the
longest examples are never seen; fewer than 8 examples end in "The dataset is empty". Here that
batch is kept and the others are as before, but they come in another order, drawn among one more.
So runs train on other batches than before where a batch was dropped: see CHANGELOG.md.
"""

import numpy as np
from fairseq.data import FairseqDataset

from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(FairseqDataset, "batch_by_size")
def with_the_last(cut, self, indices, *args, **limits):
    """Return fairseq's batches and, as one more, the examples behind them that it dropped."""
    indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = list(cut(self, indices, *args, **limits)) if len(indices) else []
    rest = indices[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches
