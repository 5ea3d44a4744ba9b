"""Formulas over six variables, and the worlds in which they are true.

A formula is written fully bracketed, tokens separated by spaces, the operator with its
right-hand side::

    formula  =  variable  |  ( not formula )  |  ( formula ( operator formula ) )
    variable =  a | b | c | d | e | f
    operator =  and | or

A world gives each of the six variables a truth value; there are 64. The meaning of a formula
is the set of worlds in which it is true, kept as an integer of 64 bits: bit w says whether
it is true in world w, and bit v of w is the value of variable number v. Operators on formulas
are then operators on integers, and two formulas are compared over all worlds at once.
"""

from typing import NamedTuple

VARIABLES = "abcdef"
OPERATORS = ("and", "or", "not")
TOKENS = (*VARIABLES, *OPERATORS, "(", ")")

WORLDS = 2 ** len(VARIABLES)
EVERYWHERE = 2**WORLDS - 1  # true in all worlds: a tautology; 0 is a contradiction


def _worlds_of(variable: int) -> int:
    return sum(1 << world for world in range(WORLDS) if world >> variable & 1)


_MEANING = {name: _worlds_of(number) for number, name in enumerate(VARIABLES)}


class Formula(NamedTuple):
    """A formula with all that is asked of it.

    Attributes:
        text: as written, tokens separated by single spaces.
        worlds: the worlds in which it is true, one bit each.
        operators: how many ``and``, ``or`` and ``not`` it has.
    """

    text: str
    worlds: int
    operators: int

    @property
    def contingent(self) -> bool:
        """Whether it is true in some world and false in another."""
        return 0 < self.worlds < EVERYWHERE


def variable(name: str) -> Formula:
    """Make the formula that is one variable.

    Raises:
        KeyError: if there is no such variable.
    """
    return Formula(name, _MEANING[name], 0)


def negate(formula: Formula) -> Formula:
    """Make ``( not formula )``."""
    return Formula(f"( not {formula.text} )", EVERYWHERE ^ formula.worlds, formula.operators + 1)


def combine(left: Formula, operator: str, right: Formula) -> Formula:
    """Make ``( left ( operator right ) )`` with ``and`` or ``or``.

    Raises:
        KeyError: if there is no such operator.
    """
    worlds = {"and": left.worlds & right.worlds, "or": left.worlds | right.worlds}[operator]
    text = f"( {left.text} ( {operator} {right.text} ) )"
    return Formula(text, worlds, left.operators + right.operators + 1)


def parse(text: str) -> Formula:
    """Read a formula, tokens separated by white space.

    Raises:
        ValueError: if it is not a formula, saying where it stops being one.
    """
    tokens = text.split()
    try:
        formula, end = _parse(tokens, 0)
    except RecursionError:
        raise ValueError("brackets nested too deeply for a formula") from None
    if end < len(tokens):
        raise ValueError(f"unexpected {tokens[end]!r} after the formula (token {end + 1})")
    return formula


def _parse(tokens: list[str], start: int) -> tuple[Formula, int]:
    """Read the formula that begins at a token; return it and the token after it."""
    first = tokens[start] if start < len(tokens) else None
    if first in _MEANING:
        return variable(first), start + 1
    _expect(tokens, start, "(", "a variable or '('")
    if start + 1 < len(tokens) and tokens[start + 1] == "not":
        inner, end = _parse(tokens, start + 2)
        return negate(inner), _expect(tokens, end, ")")
    left, middle = _parse(tokens, start + 1)
    _expect(tokens, middle, "(", "'(' and an operator")
    operator = tokens[middle + 1] if middle + 1 < len(tokens) else None
    if operator not in ("and", "or"):
        _expect(tokens, middle + 1, None, "'and' or 'or'")
    right, end = _parse(tokens, middle + 2)
    end = _expect(tokens, _expect(tokens, end, ")"), ")")
    return combine(left, operator, right), end


def _expect(tokens: list[str], place: int, token: str | None, name: str = "") -> int:
    """Return the place after ``token``, which must be at ``place``."""
    found = tokens[place] if place < len(tokens) else None
    if found is not None and found == token:
        return place + 1
    name = name or repr(token)
    if found is None:
        raise ValueError(f"the formula breaks off; {name} is missing")
    raise ValueError(f"{found!r} (token {place + 1}) where {name} should be")
