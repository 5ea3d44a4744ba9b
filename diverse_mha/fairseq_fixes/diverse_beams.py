"""``--diverse-beam-groups`` for sentences whose numbers are not their rows.

fairseq-fixed 0.12.3.1 keeps what the groups have in common by row of the batch and looks it up by
number of the sentence in the data: an IndexError for every batch but the first.
"""

from fairseq.search import DiverseBeamSearch

from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(DiverseBeamSearch, "step")
def by_row(step_of, self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
    """Make a step; numbers of sentences become rows of the batch as it was at the first step."""
    if original_batch_idxs is not None:
        if step == 0:
            self.first_numbers = original_batch_idxs
        same = original_batch_idxs.unsqueeze(1).eq(self.first_numbers)  # (rows left, rows)
        original_batch_idxs = same.int().argmax(dim=1)
    return step_of(self, step, lprobs, scores, prev_output_tokens, original_batch_idxs)
