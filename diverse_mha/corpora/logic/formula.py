"""Formulas over six variables, and the worlds in which they are true.

A formula is written fully bracketed, tokens separated by spaces, the operator with its
right-hand side::

    formula  =  variable  |  ( not formula )  |  ( formula ( operator formula ) )
    variable =  a | b | c | d | e | f
    operator =  and | or

A world gives each of the six variables a truth value; there are 64. The meaning of a formula is the
set of worlds in which it is true, an integer of 64 bits: bit w says whether it is true in world w,
and bit v of w is the value of variable number v.
"""

from typing import NamedTuple

VARIABLES = "abcdef"
TOKENS = (*VARIABLES, "and", "or", "not", "(", ")")

WORLDS = 2 ** len(VARIABLES)
EVERYWHERE = 2**WORLDS - 1  # a tautology; 0 is a contradiction
_MEANING = {
    name: sum(1 << world for world in range(WORLDS) if world >> number & 1)
    for number, name in enumerate(VARIABLES)
}


class Formula(NamedTuple):
    """A formula and its meaning.

    Attributes:
        text: tokens separated by single spaces.
        worlds: the worlds in which it is true, one bit each.
        operators: its number of ``and``, ``or`` and ``not``.
    """

    text: str
    worlds: int
    operators: int

    @property
    def contingent(self) -> bool:
        """True if it is true in some world and false in another."""
        return 0 < self.worlds < EVERYWHERE


def variable(name: str) -> Formula:
    """Return the formula of one variable."""
    return Formula(name, _MEANING[name], 0)


def negate(formula: Formula) -> Formula:
    """Return ``( not formula )``."""
    return Formula(f"( not {formula.text} )", EVERYWHERE ^ formula.worlds, formula.operators + 1)


def combine(left: Formula, operator: str, right: Formula) -> Formula:
    """Return ``( left ( operator right ) )`` with ``and`` or ``or``."""
    worlds = {"and": left.worlds & right.worlds, "or": left.worlds | right.worlds}[operator]
    text = f"( {left.text} ( {operator} {right.text} ) )"
    return Formula(text, worlds, left.operators + right.operators + 1)


def parse(text: str) -> Formula:
    """Read a formula; raises ValueError if it is none."""
    tokens = [*text.split(), None]  # the end
    try:
        formula, end = _parse(tokens, 0)
    except RecursionError:
        raise ValueError("brackets nested too deeply for a formula") from None
    if tokens[end] is not None:
        raise ValueError(f"unexpected {tokens[end]!r} after the formula (token {end + 1})")
    return formula


def _parse(tokens: list[str | None], start: int) -> tuple[Formula, int]:
    """Read the formula that begins at a token; return it and the place after it."""
    if tokens[start] in _MEANING:
        return variable(tokens[start]), start + 1
    place = _expect(tokens, start, "(", what="a variable or '('")
    if tokens[place] == "not":
        inner, end = _parse(tokens, place + 1)
        return negate(inner), _expect(tokens, end, ")")
    left, end = _parse(tokens, place)
    place = _expect(tokens, end, "(", what="'(' and an operator")
    right, end = _parse(tokens, _expect(tokens, place, "and", "or"))
    end = _expect(tokens, _expect(tokens, end, ")"), ")")
    return combine(left, tokens[place], right), end


def _expect(tokens: list[str | None], place: int, *wanted: str, what: str = "") -> int:
    """Return the place after a token, which must be one of those wanted."""
    found, what = tokens[place], what or " or ".join(map(repr, wanted))
    if found is None:
        raise ValueError(f"the formula breaks off; {what} is missing")
    if found not in wanted:
        raise ValueError(f"{found!r} (token {place + 1}) where {what} should be")
    return place + 1
