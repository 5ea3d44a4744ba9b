"""The generator: its seed, its limits, and the chances of its procedure."""

import random
from itertools import islice

import pytest

from diverse_mha.corpora.logic.formula import VARIABLES
from diverse_mha.corpora.logic.generate import generate, grow
from tests.reference_logic import reference_relation


def test_the_seed_decides_the_pairs():
    first, again, other = (list(generate(50, seed)) for seed in (3, 3, 4))
    assert first == again != other
    assert len(first) == 50
    assert list(islice(generate(500, 3), 50)) == first


def test_pairs_are_as_described():
    for pair in generate(200, 8):
        used = {v for v in f"{pair.left.text} {pair.right.text}".split() if v in VARIABLES}
        assert len(used) <= 4
        assert pair.left.contingent and pair.right.contingent
        assert max(pair.left.operators, pair.right.operators) <= 22
        assert pair.relation == reference_relation(pair.left.text, pair.right.text)


def test_chances_are_those_of_the_procedure():
    """Bare variable: 5/9 * 2/3; a limit below 2 leaves a variable, negated in 1/3."""
    generator = random.Random(2)
    count = 20_000
    sides = [grow(generator, "abcd") for _ in range(count)]
    bare = sum(side.operators == 0 for side in sides) / count
    assert bare == pytest.approx(10 / 27, abs=0.015)  # 4 standard deviations
    negated = sum(side.text.startswith("( not") for side in sides) / count
    assert negated == pytest.approx(1 / 3, abs=0.015)
    short = [grow(generator, "ab", limit=1).text for _ in range(2000)]
    assert set(short) == {"a", "b", "( not a )", "( not b )"}
    # Limits 12, 6, 3, 1: at most three levels of and/or, so eight variables.
    most = max(sum(token in VARIABLES for token in side.text.split()) for side in sides)
    assert most == 8
