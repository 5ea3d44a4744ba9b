"""Batches that hold every example of a split and of an epoch.

fairseq-fixed 0.12.3.1 skips the last sentences of a split if their number is not a multiple of
``--required-batch-size-multiple``, and ends in a traceback at one that is too long. In training it
drops the last batch, which has the longest examples; here it is kept, which changes the order of
the batches. ``fairseq-eval-lm`` skips blocks that are longer than its model reads, and prints the
perplexity of the rest, or 1.00 if none is left.
"""

import re

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.tasks import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.patch import in_place_of


@in_place_of(FairseqTask, "get_batch_iterator")
def batches_of_whole_split(get, self, dataset, **settings):
    """Keep every sentence of a split that is not trained on, in the same batches every time."""
    # fairseq's Trainer gives this setting for the training subset only.
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
    """Refuse an example of valid or test that is longer than the model reads."""
    try:
        return keep(self, indices, dataset, *args, **kwargs)
    except Exception as error:  # fairseq raises no other class
        said = re.fullmatch(r"Size of sample #(\d+) is invalid .* since (.*), skip .*", str(error))
        if said is None:
            raise
        split = next((name for name, one in self.datasets.items() if one is dataset), "the text")
        size = " and ".join(f"{n:,}" for n in np.ravel(dataset.size(int(said[1]))))
        given = self.cfg or self.args  # older tasks of fairseq
        raise OptionError(
            f"{getattr(given, 'data', None)}: example {int(said[1]) + 1} of {split} has {size} "
            f"tokens, more than the model reads ({said[2]}); shorten it, or leave it out"
        ) from error


@in_place_of(FairseqDataset, "batch_by_size")
def with_the_last(cut, self, indices, *args, **limits):
    """Return fairseq's batches, and one of the examples that it dropped."""
    indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = list(cut(self, indices, *args, **limits)) if len(indices) else []
    rest = indices[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches


@in_place_of(LanguageModelingTask, "eval_lm_dataloader")
def batches_of_whole(batches, self, dataset, *args, max_positions=None, **settings):
    """Refuse such blocks, and name the longest possible ones."""
    length = self.args.tokens_per_sample + settings.get("context_window", 0)
    if max_positions is not None and dataset.sizes.max(initial=0) > max_positions < length:
        raise OptionError(
            f"--tokens-per-sample {length}: the model reads {max_positions}, and longer blocks "
            f"would be left out; give --tokens-per-sample {max_positions}"
        )
    return batches(self, dataset, *args, max_positions=max_positions, **settings)
