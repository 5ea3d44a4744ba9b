"""Guard: an example longer than the model or a batch is named, with the value that suffices.

fairseq-fixed 0.12.3.1 fails with a traceback at such a sentence, without its number.
``fairseq-eval-lm`` skips blocks that are too long for the model, and prints the perplexity of the
rest, or 1.00 if none is left.
"""

import re

import numpy as np
from fairseq.data import FairseqDataset
from fairseq.tasks import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.trainer import Trainer

from diverse_mha.common.errors import Option, UserError, listed
from diverse_mha.fairseq_fixes.patch import patch, patched


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
        cure: list[str | Option] = ["leave it out"]
        if isinstance(self, LanguageModelingTask):
            cure = ["train with ", Option("tokens_per_sample", size.replace(",", ""))]
        raise UserError(
            f"{getattr(given, 'data', None)}: example {int(match[1]) + 1} of {split} has {size} "
            f"tokens, more than the model reads ({match[2]}); shorten it, or ",
            *cure,
        ) from error


@patch(FairseqTask, "get_batch_iterator")
def report_example_longer_than_a_batch(original, self, dataset, max_tokens=None, **settings):
    """Raise an error for an example that is longer than ``--max-tokens``.

    fairseq leaves such sentences out of training only.
    """
    try:
        return original(self, dataset, max_tokens=max_tokens, **settings)
    except AssertionError as error:
        if _TOO_LONG not in str(error):
            raise
        options = getattr(self, "options_of_limit", ("max_tokens",))
        raise _refused(self, dataset, max_tokens, options) from error


_TOO_LONG = "should not exceed max_tokens"  # in fairseq's error


def _refused(task, dataset, max_tokens: int | None, options=("max_tokens",)) -> UserError:
    """Return the error that names the longest example, and the options that set the limit."""
    tokens = _numbers_of_tokens(dataset)
    longest = int(np.argmax(tokens))
    split = next((name for name, one in task.datasets.items() if one is dataset), "the text")
    return UserError(
        Option(options[0], max_tokens),
        f": example {longest + 1} of {split} has {tokens[longest]:,} tokens; give ",
        *listed((Option(name, int(tokens[longest])) for name in options), "or"),
    )


def _numbers_of_tokens(dataset: FairseqDataset) -> np.ndarray:
    """Return the number of tokens of every example, as ``--max-tokens`` counts them."""
    indices = np.arange(len(dataset))
    try:
        return dataset.num_tokens_vec(indices)
    except NotImplementedError:  # of fairseq's base class; such a dataset counts one by one
        return np.array([dataset.num_tokens(index) for index in indices])


@patch(Trainer, "get_train_iterator")
def report_long_examples_of_training(original, self, *args, **kwargs):
    """Raise an error if no example of training, or not every pair, is within ``--max-tokens``.

    Here, because batches that are made anew for every epoch are made after the iterator.
    """
    try:
        return original(self, *args, **kwargs)
    except Exception as error:  # fairseq raises plain Exception for no example
        limits = self.cfg.dataset
        if _TOO_LONG in str(error):
            dataset = self.task.dataset(limits.train_subset)
            raise _refused(self.task, dataset, limits.max_tokens) from error
        if "dataset is empty" not in str(error) or limits.max_tokens is None:
            raise
        tokens = _numbers_of_tokens(self.task.dataset(limits.train_subset))
        if len(tokens) == 0 or tokens.min() <= limits.max_tokens:
            raise
        raise UserError(
            Option("max_tokens", limits.max_tokens),
            f": all examples of {limits.train_subset} are longer; give ",
            Option("max_tokens", int(tokens.max())),
        ) from error


@patch(Trainer, "get_valid_iterator")
def name_limit_of_validation(original, self, *args, **kwargs):
    """Let the error above name the option that limits validation."""
    limits, names = self.cfg.dataset, ("max_tokens", "max_tokens_valid")
    if limits.max_tokens_valid != limits.max_tokens:
        names = names[1:]
    with patched(self.task, "options_of_limit", names):
        return original(self, *args, **kwargs)


@patch(LanguageModelingTask, "eval_lm_dataloader")
def refuse_long_blocks(original, self, dataset, *args, max_positions=None, **settings):
    """Raise an error if fairseq-eval-lm would skip blocks longer than the model reads."""
    length = self.args.tokens_per_sample + settings.get("context_window", 0)
    if max_positions is not None and dataset.sizes.max(initial=0) > max_positions < length:
        raise UserError(
            Option("tokens_per_sample", length),
            f": the model reads {max_positions}, and longer blocks would be left out; give ",
            Option("tokens_per_sample", max_positions),
        )
    return original(self, dataset, *args, max_positions=max_positions, **settings)
