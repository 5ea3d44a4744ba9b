"""Reads literals, and sums and products of them, without running code."""

import ast
import operator
from typing import Any

LONGEST_TEXT = 2000  # characters
LONGEST_LIST = 10_000  # elements, so that ``[0] * 10**9`` does not fill the memory

_SIGNS = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_SEQUENCES = {ast.List: list, ast.Tuple: tuple, ast.Set: set}


def evaluate_literal(text: str) -> Any:
    """Return what ``eval`` would for literals such as ``[(512, 3)] * 20 + [(1024, 1)]``.

    Allowed are Python's literals, signs, and ``+``, ``-`` and ``*`` of numbers, lists and tuples.

    Raises:
        TypeError: if ``text`` is not a string.
        ValueError: if it holds anything else, or is too long.
    """
    if not isinstance(text, str):
        raise TypeError(f"a literal is a string, not {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"longer than {LONGEST_TEXT} characters")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError("neither a literal nor a sum or product of them") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() | None):  # bool is an int
            return node.value
        case ast.List() | ast.Tuple() | ast.Set():
            return _SEQUENCES[type(node)](_value(item) for item in node.elts)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
            return _SIGNS[type(node.op)](_value(node.operand))
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
            return _combined(node.op, _value(node.left), _value(node.right))
    raise ValueError("neither a literal nor a sum or product of them")


def _combined(operation: ast.operator, left: Any, right: Any) -> Any:
    lengths = [len(x) for x in (left, right) if hasattr(x, "__len__")]
    times = [abs(x) for x in (left, right) if isinstance(x, int)]
    if lengths and sum(lengths) * max(times, default=1) > LONGEST_LIST:
        raise ValueError(f"makes a list of more than {LONGEST_LIST} elements")
    return _OPERATIONS[type(operation)](left, right)
