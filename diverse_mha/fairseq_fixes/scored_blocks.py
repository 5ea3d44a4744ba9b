"""``fairseq-eval-lm`` with blocks that are longer than its model reads.

fairseq-fixed 0.12.3.1 skips them and prints the perplexity of the rest, or 1.00 if none is left.
"""

from fairseq.tasks.language_modeling import LanguageModelingTask

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.replacing import in_place_of


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
