"""Options in checkpoints: literals in the place of ``eval``, and plain file names."""

from contextlib import nullcontext

import pytest
from omegaconf import OmegaConf

from diverse_mha.common.errors import Option, UserError, as_option
from diverse_mha.fairseq_fixes.checkpoint_options import (
    LONGEST_TEXT,
    check_options,
    check_readable,
    evaluate_option,
)

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


@pytest.mark.parametrize(
    ("group", "name", "value", "why"),
    [
        ("dataset", "train_subset", "sub/train", "not a plain file name"),
        ("dataset", "train_subset", "../train", "not a plain file name"),
        ("task", "source_lang", "zh (Hant)", "not a plain file name"),
        ("dataset", "train_subset", "train,train1", None),
        ("task", "target_lang", "en.bpe", None),
        ("task", "target_lang", None, None),
        ("dataset", "valid_subset", "sub/valid", None),
    ],
)
def test_what_a_checkpoint_may_not_hold_is_refused_before_training(group, name, value, why):
    options = OmegaConf.create({group: {name: value}, "copy": {name: f"${{{group}.{name}}}"}})
    refused = pytest.raises(UserError) if why else nullcontext()
    with refused as training:
        check_readable(options)
    with refused as loading:
        check_options("run/a.pt", OmegaConf.to_container(options, resolve=True))
    if why:
        given = as_option(Option(name, value))
        assert str(training.value).startswith(f"{given}: {why}; rename it to letters, ")
        assert f"its option {group}.{name} {value!r}: {why}; refused" in str(loading.value)
