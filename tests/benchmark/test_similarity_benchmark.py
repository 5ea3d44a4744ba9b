"""The benchmark's ways of computing the same do compute the same."""

import pytest

from diverse_mha.benchmark.similarity import Measured, batches, check, full, stream
from diverse_mha.common.errors import UserError


def test_all_ways_agree():
    found = stream(2500, 4, 32)
    for gram in (False, True):
        check(found, full(2500, 4, 32, gram), 2500)
    assert 0.05 < found.cka < 0.6 and 0.05 < found.svcca < 0.9 and found.peak > 10


def test_responses_do_not_depend_on_how_many_follow():
    first, second = next(batches(4096, 4, 32)), next(batches(9000, 4, 32))
    assert (first == second).all()


def test_ways_that_disagree_are_refused():
    with pytest.raises(UserError, match="100 positions: cka is 0.5 streamed and 0.6 in numpy"):
        check(Measured(0.5, 0.1, 1, 1), Measured(0.6, 0.1, 1, 1), 100)
