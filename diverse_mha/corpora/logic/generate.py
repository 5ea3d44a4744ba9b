"""Pairs of formulas by the procedure of the published set (Bowman et al. 2014).

For each pair four of the six variables are drawn. Each side is grown from the top with a limit
that starts at 12: with probability 5/9, or if the limit is below 2, it is one of the four
variables; else it is ``and`` or ``or`` (2/9 each) of two sides grown with half the limit, rounded
down. The result is negated with probability 1/3, at every level. So a side has at most 8 variables
and 22 operators. Pairs with a tautology or contradiction are dropped, and later the repeated ones.
Short pairs run out, so the shares of the lengths depend on the number of draws (500,000 in the
published set).
"""

import random
from collections.abc import Iterator

from diverse_mha.corpora.logic.formula import VARIABLES, Formula, combine, negate, variable
from diverse_mha.corpora.logic.pairs import LONGEST, Pair
from diverse_mha.corpora.logic.relations import relation

VERSION = 1  # of the pairs of a seed
DRAWS = 500_000
SEED = 1
_DRAWN_VARIABLES = 4
_LEAF = 5 / 9
_NEGATED = 1 / 3


def grow(generator: random.Random, names: str, limit: int = LONGEST) -> Formula:
    """Grow one side at random from variables."""
    if limit < 2 or generator.random() < _LEAF:
        formula = variable(generator.choice(names))
    else:
        operator = generator.choice(("and", "or"))
        left = grow(generator, names, limit // 2)
        formula = combine(left, operator, grow(generator, names, limit // 2))
    return negate(formula) if generator.random() < _NEGATED else formula


def generate(draws: int = DRAWS, seed: int = SEED) -> Iterator[Pair]:
    """Draw labelled pairs of contingent sides, repeated ones included."""
    generator = random.Random(seed)
    left_to_draw = draws
    while left_to_draw:
        names = "".join(generator.sample(VARIABLES, _DRAWN_VARIABLES))
        left, right = grow(generator, names), grow(generator, names)
        if left.contingent and right.contingent:
            left_to_draw -= 1
            yield Pair(relation(left, right), left, right)
