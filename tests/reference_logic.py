"""Slow, independent evaluation of logical formulas with Python's operators."""

from itertools import product

VARIABLES = "abcdef"


def satisfying(text: str) -> set[tuple[bool, ...]]:
    """Return the assignments of the six variables that make a formula true."""
    code = compile(text, "formula", "eval")  # text is already Python, see as_python
    worlds = product((False, True), repeat=len(VARIABLES))
    return {w for w in worlds if eval(code, {}, dict(zip(VARIABLES, w, strict=True)))}


def as_python(text: str) -> str:
    """Return a formula of the published format as a Python expression."""
    return text.replace("( or", "or (").replace("( and", "and (")


def reference_relation(left: str, right: str) -> str:
    """Return the relation of two contingent formulas, from their sets of assignments."""
    everything = satisfying("True")
    a, b = satisfying(as_python(left)), satisfying(as_python(right))
    if a == b:
        return "="
    if a < b:
        return "<"
    if a > b:
        return ">"
    disjoint, exhaustive = a.isdisjoint(b), a | b == everything
    return {(True, True): "^", (True, False): "|", (False, True): "v"}.get(
        (disjoint, exhaustive), "#"
    )
