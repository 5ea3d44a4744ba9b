"""The relation of two formulas, against sets of assignments."""

import random
from itertools import product

import pytest

from diverse_mha.corpora.logic.formula import parse
from diverse_mha.corpora.logic.generate import grow
from diverse_mha.corpora.logic.relations import RELATIONS, relation
from tests.reference_logic import reference_relation


def test_random_pairs_agree_with_the_sets():
    generator = random.Random(5)
    formulas = [f for f in (grow(generator, "abc") for _ in range(60)) if f.contingent]
    seen = {}
    for left, right in product(formulas[:30], formulas[30:50]):
        sign = relation(left, right)
        assert sign == reference_relation(left.text, right.text)
        assert relation(right, left) == {"<": ">", ">": "<"}.get(sign, sign)
        seen[sign] = seen.get(sign, 0) + 1
    assert set(seen) == set(RELATIONS)


def test_relations_are_not_defined_beside_a_tautology():
    always, never = parse("( a ( or ( not a ) ) )"), parse("( a ( and ( not a ) ) )")
    with pytest.raises(ValueError, match="left side is a tautology: \\( a"):
        relation(always, parse("b"))
    with pytest.raises(ValueError, match="right side is a contradiction"):
        relation(parse("b"), never)
