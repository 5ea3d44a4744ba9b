"""Several gloo processes against one: every architecture, criterion and term."""

import pytest

from tests.reliability import distributed, miniature

pytestmark = pytest.mark.system


@pytest.mark.parametrize("world", [2, 4])
def test_a_step_of_several_processes_is_that_of_one(world, tmp_path):
    miniature.write_all(tmp_path)
    cases = distributed.all_cases()
    outcomes = distributed.compare(world, cases, tmp_path, tmp_path)
    assert len(outcomes) == 3 * len(cases) == 288
    print("\n" + distributed.check(outcomes, world))
