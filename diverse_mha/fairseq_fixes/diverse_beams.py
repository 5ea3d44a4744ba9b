"""``--diverse-beam-groups`` ends in an IndexError after the first batch (fairseq-fixed 0.12.3.1).

fairseq stores by row of the batch, and looks up by number of the sentence in the data.
"""

from fairseq.search import DiverseBeamSearch

from diverse_mha.fairseq_fixes.replacing import in_place_of


@in_place_of(DiverseBeamSearch, "step")
def by_row(step_of, self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
    """Make a step with rows of the first step's batch in place of sentence numbers."""
    if original_batch_idxs is not None:
        if step == 0:
            self.first_numbers = original_batch_idxs
        same = original_batch_idxs.unsqueeze(1).eq(self.first_numbers)  # (rows left, rows)
        original_batch_idxs = same.int().argmax(dim=1)
    return step_of(self, step, lprobs, scores, prev_output_tokens, original_batch_idxs)
