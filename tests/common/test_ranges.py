"""Ranges of numbers, in Python and on the command line."""

import argparse

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import check_option
from diverse_mha.common.ranges import COUNT, POSITIVE, at_least, between


@pytest.mark.parametrize("value", [0, True, 1.5])
def test_values_outside_a_range_are_refused(value):
    with pytest.raises(ValueError, match=r"^n is .*; expected a whole number, 1 or more$"):
        COUNT.check("n", value)


@pytest.mark.parametrize(
    "read, text, expected",
    [
        (at_least(2).parse_int, "1", "1: expected a whole number, 2 or more"),
        (at_least(2).parse_int, "many", "many: expected a whole number, 2 or more"),
        (between(-1, 0.5).parse_float, "0.6", "0.6: expected a number from -1 to 0.5"),
        (between(0, 1).parse_float, "nan", "nan: expected a number from 0 to 1"),
    ],
)
def test_command_line_values_outside_a_range_are_refused(read, text, expected):
    with pytest.raises(argparse.ArgumentTypeError) as error:
        read(text)
    assert str(error.value) == expected


def test_valid_values_are_accepted():
    assert at_least(2).parse_int("2") == 2 and between(0, 1).parse_float("1") == 1.0
    check_option(POSITIVE, "hsic_weight", 1)
    with pytest.raises(UserError, match=r"^--hsic-weight 0: must be a positive number$"):
        check_option(POSITIVE, "hsic_weight", 0)
