"""Every sentence of a validation or test split is read.

fairseq-fixed 0.12.3.1 leaves out the last sentences of a split whose number is not a multiple of
``--required-batch-size-multiple``, and ends in a traceback at one that is too long.
"""

import re

import numpy as np
from fairseq.tasks import FairseqTask

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(FairseqTask, "get_batch_iterator")
def batches_of_whole_split(get, self, dataset, **settings):
    """Let the batches of whatever is not trained on hold every sentence, whatever the task.

    Nor are they drawn anew with each validation, as those of training with ``--rebuild-batches``.
    """
    # How to shuffle groups is said by fairseq's Trainer for the training subset alone.
    if "grouped_shuffling" in settings:
        return get(self, dataset, **settings)
    settings["required_batch_size_multiple"] = 1
    rebuilt = getattr(self.cfg, "rebuild_batches", None)
    if rebuilt:
        self.cfg.rebuild_batches = False
    try:
        return get(self, dataset, **settings)
    finally:
        if rebuilt:
            self.cfg.rebuild_batches = rebuilt


@in_place_of(FairseqTask, "filter_indices_by_size")
def name_what_is_too_long(keep, self, indices, dataset, *args, **kwargs):
    """Refuse in one line an example of valid or test that is longer than the model reads."""
    try:
        return keep(self, indices, dataset, *args, **kwargs)
    except Exception as error:  # fairseq raises just that
        said = re.fullmatch(r"Size of sample #(\d+) is invalid .* since (.*), skip .*", str(error))
        if said is None:
            raise
        split = next((name for name, one in self.datasets.items() if one is dataset), "the text")
        size = " and ".join(f"{n:,}" for n in np.ravel(dataset.size(int(said[1]))))
        given = self.cfg or self.args  # which fairseq's older tasks have in its place
        raise OptionError(
            f"{getattr(given, 'data', None)}: example {int(said[1]) + 1} of {split} has {size} "
            f"tokens, more than the model reads ({said[2]}); shorten it, or leave it out"
        ) from error
