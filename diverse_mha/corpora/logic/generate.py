"""Pairs of formulas by the procedure of the published set (Bowman et al. 2014).

For each pair four of the six variables are drawn. Each side is grown from the top with a limit
that starts at 12: with probability 5/9, or when the limit is below 2, it is one of the four
variables; else it is ``and`` or ``or`` (2/9 each) of two sides grown with half the limit, rounded
down. Whatever came out is negated with probability 1/3, at every level. So a side has at most
8 variables and 22 operators. A pair with a side that is a tautology or a contradiction is thrown
away. A number of pairs is drawn, 500,000 in the published set, and of equal ones the first is
kept; short pairs therefore run out, and the shares of the lengths depend on the number of draws.

The label is the exact relation over all 64 worlds, as it is in the published set.
"""

import random
from collections.abc import Iterator

from diverse_mha.corpora.logic.formula import VARIABLES, Formula, combine, negate, variable
from diverse_mha.corpora.logic.pairs import LONGEST, Pair
from diverse_mha.corpora.logic.relations import relation

VERSION = 1  # raised when the same seed comes to give other pairs
DRAWS = 500_000
SEED = 1
_DRAWN_VARIABLES = 4
_LEAF = 5 / 9
_NEGATED = 1 / 3


def grow(generator: random.Random, names: str, limit: int = LONGEST) -> Formula:
    """Grow one side at random from variables; with a limit below 2 it is one of them."""
    if limit < 2 or generator.random() < _LEAF:
        formula = variable(generator.choice(names))
    else:
        operator = generator.choice(("and", "or"))
        left = grow(generator, names, limit // 2)
        formula = combine(left, operator, grow(generator, names, limit // 2))
    return negate(formula) if generator.random() < _NEGATED else formula


def generate(draws: int = DRAWS, seed: int = SEED) -> Iterator[Pair]:
    """Draw labelled pairs of contingent sides, repeated ones included.

    The same seed gives the same pairs.
    """
    generator = random.Random(seed)
    left_to_draw = draws
    while left_to_draw:
        names = "".join(generator.sample(VARIABLES, _DRAWN_VARIABLES))
        left, right = grow(generator, names), grow(generator, names)
        if left.contingent and right.contingent:
            left_to_draw -= 1
            yield Pair(relation(left, right), left, right)
