"""Several processes make the same update as one process, for every criterion and method."""

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


@pytest.mark.parametrize(
    ("world", "cases"),
    [
        pytest.param(2, SOME, marks=pytest.mark.integration, id="2-some"),
        pytest.param(2, ALL, marks=pytest.mark.system, id="2-all"),
        pytest.param(4, ALL, marks=pytest.mark.system, id="4-all"),
    ],
)
def test_several_processes_make_the_same_update_as_one_process(world, cases, tmp_path):
    miniature.write_all(tmp_path)
    outcomes = distributed.compare(world, cases, tmp_path, tmp_path)
    assert len(outcomes) == 3 * len(cases) and len(ALL) == 96
    distributed.check(outcomes)
