"""The replacement of ``eval`` for options in checkpoints: literals only."""

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.fairseq_fixes.checkpoint_options import LONGEST_TEXT, evaluate_option

PLAIN = [
    "10000,50000,200000",
    " (1e-30, 1e-3)",
    "True",
    "-1",
    "[3, 7, (15, 1)]",
    "{'a': [1, 2], 'b': None}",
    "'text'",
    "()",
]
REFUSED = [
    "__import__('os').system('true')",
    "[__import__('os')]",
    "(lambda: 1)()",
    "x",
    "[].__class__",
    "9 ** 9 ** 9",
    "1 if True else 2",
    "[x for x in (1, 2)]",
    "f'{1}'",
    "{**{}}",
    "{[]: 1}",
    "",
    "1; 2",
    "a = 1",
    "\0",
    "[0] * 1000000000",
    "(" * 900 + ")" * 900,
    "-" * 1900 + "1",
    "1" * (LONGEST_TEXT + 1),
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_values_are_evaluated_as_by_eval(text):
    value = evaluate_option(text)
    assert value == eval(text.strip())  # safe: all texts are listed above
    assert type(value) is type(eval(text.strip()))


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_code_is_refused(text):
    with pytest.raises(UserError, match="; refused$"):
        evaluate_option(text)


@pytest.mark.parametrize("value", [None, 3, [1], b"1"], ids=repr)
def test_non_strings_are_refused_like_eval(value):
    with pytest.raises(TypeError):
        evaluate_option(value)
