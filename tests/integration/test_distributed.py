"""Several processes make the update of one process that accumulates their batches.

The update on the joined batch is the same for most terms, and differs for those in the docs.
"""

import pytest

from tests.reliability import distributed, miniature

SOME = [
    ("transformer_routing", "all"),
    ("transformer_coda", "target-side"),
    ("transformer_disagree", "position"),
    ("transformer_lm_coda", "orthogonality"),
    ("transformer_lm_routing_adaptive", "output"),
    ("transformer_disagree", "summed-loss"),
    ("transformer_lm_disagree", "centred"),
    ("sentence_classifier", "all"),
]
ALL = distributed.all_cases()


@pytest.mark.long
@pytest.mark.parametrize(
    ("world", "cases"),
    [
        pytest.param(2, SOME, marks=pytest.mark.integration, id="2-some"),
        pytest.param(2, ALL, marks=pytest.mark.system, id="2-all"),
        pytest.param(4, ALL, marks=pytest.mark.system, id="4-all"),
    ],
)
def test_updates_of_several_processes_differ_from_one_only_as_documented(world, cases, tmp_path):
    miniature.write_all(tmp_path)
    outcomes = distributed.compare(world, cases, tmp_path, tmp_path)
    assert len(outcomes) == 3 * len(cases) and len(ALL) == 96
    distributed.check(outcomes)
