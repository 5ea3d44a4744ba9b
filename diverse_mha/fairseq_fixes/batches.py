"""Batches: every example of a split and of an epoch is used.

fairseq-fixed 0.12.3.1 drops the last batch of a split if its size is not a multiple of
``--required-batch-size-multiple``. In training, this batch has the longest examples; keeping it
changes the order of the others. In validation, fairseq also fails with a traceback at a sentence
that is too long. ``fairseq-eval-lm`` skips blocks that are too long for the model,
and prints the perplexity of the rest, or 1.00 if none is left. fairseq's diverse beam search stores
scores by row of the batch but looks them up by sentence number, so it fails with an IndexError.
"""

import re

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.search import DiverseBeamSearch
from fairseq.tasks import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask

from diverse_mha.common.errors import UserError
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


@patch(FairseqTask, "filter_indices_by_size")
def report_long_example(original, self, indices, dataset, *args, **kwargs):
    """Raise an error for a validation or test example that is too long for the model."""
    try:
        return original(self, indices, dataset, *args, **kwargs)
    except Exception as error:  # fairseq raises plain Exception
        match = re.fullmatch(r"Size of sample #(\d+) is invalid .* since (.*), skip .*", str(error))
        if match is None:
            raise
        split = next((name for name, one in self.datasets.items() if one is dataset), "the text")
        size = " and ".join(f"{n:,}" for n in np.ravel(dataset.size(int(match[1]))))
        given = self.cfg or self.args  # fairseq's older tasks have args only
        cure = "shorten it, or leave it out"
        if isinstance(self, LanguageModelingTask):
            cure = f"shorten it, or train with --tokens-per-sample {size.replace(',', '')}"
        raise UserError(
            f"{getattr(given, 'data', None)}: example {int(match[1]) + 1} of {split} has {size} "
            f"tokens, more than the model reads ({match[2]}); {cure}"
        ) from error


@patch(FairseqDataset, "batch_by_size")
def keep_last_batch(original, self, indices, *args, **limits):
    """Return fairseq's batches, and the examples that fairseq dropped as a further batch."""
    indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = list(original(self, indices, *args, **limits)) if len(indices) else []
    rest = indices[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches


@patch(LanguageModelingTask, "eval_lm_dataloader")
def refuse_long_blocks(original, self, dataset, *args, max_positions=None, **settings):
    """Raise an error if fairseq-eval-lm would skip blocks longer than the model reads."""
    length = self.args.tokens_per_sample + settings.get("context_window", 0)
    if max_positions is not None and dataset.sizes.max(initial=0) > max_positions < length:
        raise UserError(
            f"--tokens-per-sample {length}: the model reads {max_positions}, and longer blocks "
            f"would be left out; give --tokens-per-sample {max_positions}"
        )
    return original(self, dataset, *args, max_positions=max_positions, **settings)


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
