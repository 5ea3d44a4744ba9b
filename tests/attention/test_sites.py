"""Numbers of the heads of a module of which some are pruned."""

from dataclasses import dataclass

from diverse_mha.attention.sites import HeadNumbers


@dataclass
class Measure:
    pairs: dict
    matrix: list
    heads: list
    mean: float


def test_a_measure_has_none_at_the_heads_that_are_pruned():
    left = Measure({"1-2": 0.5}, [[1.0, 0.5], [0.25, 1.0]], [0.1, 0.3], 0.2)
    numbers = HeadNumbers(kept=(1, 3), total=3)
    assert numbers.pruned == [2]
    assert numbers.number(left) == Measure(
        {"1-3": 0.5},
        [[1.0, None, 0.5], [None, None, None], [0.25, None, 1.0]],
        [0.1, None, 0.3],
        0.2,
    )
    assert HeadNumbers.unpruned(2).number(left) is left
