"""Formulas: reading, meaning, and what is not one."""

import random

import pytest

from diverse_mha.corpora.logic.formula import WORLDS, parse
from diverse_mha.corpora.logic.generate import grow
from tests.reference_logic import VARIABLES, as_python, satisfying


def worlds_of(bits: int) -> set[tuple[bool, ...]]:
    """Spell the worlds of a formula as assignments of the variables."""
    return {
        tuple(bool(w >> v & 1) for v in range(len(VARIABLES)))
        for w in range(WORLDS)
        if bits >> w & 1
    }


@pytest.mark.parametrize("seed", range(40))
def test_meaning_is_that_of_python_in_every_world(seed):
    formula = grow(random.Random(seed), VARIABLES)
    assert worlds_of(formula.worlds) == satisfying(as_python(formula.text))
    assert formula.operators == sum(formula.text.split().count(o) for o in ("and", "or", "not"))
    assert parse(formula.text) == formula


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "breaks off; a variable or '\\(' is missing"),
        ("g", "'g' \\(token 1\\) where a variable"),
        ("a b", "unexpected 'b' after the formula \\(token 2\\)"),
        ("( not a", "breaks off; '\\)' is missing"),
        ("( a or b )", "'or' \\(token 3\\) where '\\(' and an operator"),
        ("( a ( xor b ) )", "'xor' \\(token 4\\) where 'and' or 'or'"),
        ("( a ( or b )", "breaks off"),
        ("( a ( or", "breaks off"),
        ("( a (", "breaks off; 'and' or 'or' is missing"),
        ("( not " * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_place(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
