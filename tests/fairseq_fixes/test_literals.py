"""A reader of literals: the values of ``eval`` where they are plain, and nothing else."""

import pytest

from diverse_mha.fairseq_fixes.literals import LONGEST_LIST, LONGEST_TEXT, evaluate_literal

PLAIN = [
    "10000,50000,200000",
    "10000",
    "[(512, 3)] * 20",
    "[(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2",
    "(0.9, 0.98)",
    " (1e-30, 1e-3)",
    "True",
    "None",
    "-1",
    "[True] + [False] * 3",
    "{'a': [1, 2], 'b': None}",
    "{1, 2}",
    "'text'",
    "3 * 4 - 2",
    "[1] * -2",
    "()",
]
REFUSED = [
    "__import__('os').system('true')",
    "[__import__('os')]",
    "(lambda: 1)()",
    "x",
    "int",
    "[].__class__",
    "[1][0]",
    "9 ** 9 ** 9",
    "[] * 999999999999999999999",
    "9" * 400 + " * 1.5",
    "1 if True else 2",
    "[x for x in (1, 2)]",
    "f'{1}'",
    "{**{}}",
    "{[]: 1}",
    "b'bytes'",
    "...",
    "1 + 'a'",
    "",
    "1; 2",
    "a = 1",
    "\0",
    "[0] * 1000000000",
    "1000000000 * [0]",
    "[[0] * 9999] * 9999 + [1] * 9999",
    "(" * 900 + ")" * 900,
    "-" * 1900 + "1",
    "1" * (LONGEST_TEXT + 1),
]


@pytest.mark.parametrize("text", PLAIN)
def test_equals_eval_on_plain_values(text):
    found = evaluate_literal(text)
    assert found == eval(text.strip())  # the oracle; every text stands above
    assert type(found) is type(eval(text.strip()))


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_refuses_all_else(text):
    with pytest.raises(ValueError):
        evaluate_literal(text)


@pytest.mark.parametrize("value", [None, True, 3, [1], b"1"], ids=repr)
def test_what_is_no_text_is_refused_as_by_eval(value):
    with pytest.raises(TypeError):
        evaluate_literal(value)


def test_lists_have_a_longest_length():
    assert len(evaluate_literal(f"[0] * {LONGEST_LIST}")) == LONGEST_LIST
    with pytest.raises(ValueError, match=str(LONGEST_LIST)):
        evaluate_literal(f"[0] * {LONGEST_LIST + 1}")
