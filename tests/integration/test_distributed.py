"""Two gloo processes against one, through fairseq's Trainer: every criterion, every method."""

import pytest

from tests.reliability import distributed, miniature

pytestmark = pytest.mark.integration

CASES = [
    ("transformer_routing", "all"),
    ("transformer_coda", "target-side"),
    ("transformer_disagree", "position"),
    ("transformer_lm_coda", "orthogonality"),
    ("transformer_lm_routing_adaptive", "output"),
    ("transformer_disagree", "summed-loss"),
    ("transformer_lm_disagree", "centred"),
    ("sentence_classifier", "all"),
]


def test_a_step_of_two_processes_is_that_of_one(tmp_path):
    miniature.write_all(tmp_path)
    outcomes = distributed.compare(2, CASES, tmp_path, tmp_path)
    assert len(outcomes) == 3 * len(CASES)
    distributed.check(outcomes, 2)
