"""Filtering, sampling and holding out sentence pairs."""

from functools import partial

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.choose import (
    dropped_by,
    filter_pairs,
    hold_out,
    sample_pairs,
    words_and_letters,
)
from diverse_mha.corpora.text import write_lines


def sides(folder, name):
    return folder / f"{name}.a", folder / f"{name}.b"


def write(folder, name, first, second):
    paths = sides(folder, name)
    for path, lines in zip(paths, (first, second), strict=True):
        write_lines(path, lines)
    return paths


def read(paths):
    return [path.read_text().splitlines() for path in paths]


def draw(folder, whole, size, seed):
    out = sides(folder, "out")
    total = sample_pairs(whole, out, size, seed)
    first, second = read(out)
    assert [line.upper() for line in first] == second and len(first) == size
    return total, first


@pytest.fixture
def whole(tmp_path):
    lines = [f"x{n}" for n in range(20)]
    return write(tmp_path, "whole", lines, [line.upper() for line in lines])


def test_a_sample_keeps_the_order_and_depends_on_the_seed(tmp_path, whole):
    lines = read(whole)[0]
    total, first = draw(tmp_path, whole, 7, 3)
    assert total == 20 and first == [line for line in lines if line in first]
    assert draw(tmp_path, whole, 7, 3)[1] == first != draw(tmp_path, whole, 7, 4)[1]
    assert draw(tmp_path, whole, 20, 1)[1] == lines


def test_blank_pairs_are_never_sampled(tmp_path):
    whole = write(tmp_path, "whole", ["a", "", "c", " ", "e"], ["A", "B", "\t", "D", "E"])
    assert draw(tmp_path, whole, 2, 0) == (5, ["a", "e"])
    with pytest.raises(UserError, match="--sample 3: only 2 of the 5 training"):
        sample_pairs(whole, sides(tmp_path, "out"), 3, 0)


def test_hold_out_counts_only_pairs_that_pass(tmp_path):
    """Multiples of 3 do not pass the filter. Every 2nd of the other numbers is held out."""
    lines = [f"{n}" for n in range(1, 13)]
    whole = write(tmp_path, "whole", lines, lines)
    rest, held = sides(tmp_path, "rest"), sides(tmp_path, "held")
    tokens = write(tmp_path, "tokens", [f"t {n}" for n in lines], [f"t {n}" for n in lines])
    count = hold_out(
        whole, tokens, rest, held, 2, lambda a, b: "third" * (int(a.split()[1]) % 3 == 0)
    )
    assert count == 4
    assert read(held) == [["2", "5", "8", "11"]] * 2
    assert read(rest) == [["1", "3", "4", "6", "7", "9", "10", "12"]] * 2


@pytest.mark.parametrize(
    "source, target, kept",
    [
        ("a b", "c", True),
        ("", "c", False),
        ("a " * 6, "b " * 2, True),
        ("a " * 7, "b " * 2, False),
        ("b " * 2, "a " * 7, False),
        ("a " * 8, "b " * 8, True),
        ("a " * 9, "b " * 8, False),
    ],
)
def test_pairs_with_more_than_8_tokens_or_a_ratio_above_3_are_dropped(source, target, kept):
    assert (not dropped_by(source, target, max_length=8, max_ratio=3.0)) is kept


def test_the_filter_drops_both_sides_of_a_pair(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c", "d")]
    write_lines(paths[0], ["1 1", "2", "", "4", "5 " * 10, "6"])
    write_lines(paths[1], ["x", "y", "z", "", "5 " * 5, "6 " * 9 + "6"])
    printed = filter_pairs(paths[:2], paths[2:], partial(dropped_by, max_length=9))
    assert printed == ("2 of 6 train pairs kept; dropped: 2 empty, 2 longer than 9")
    assert paths[2].read_text() == "1 1\n2\n" and paths[3].read_text() == "x\ny\n"


@pytest.mark.parametrize(
    "line, count",
    [
        ("two words", 2), ("今日は晴れ。", 5), ("สวัสดี", 4), ("iPhone 手机", 3), ("", 0),
        ("한국어 단어", 2), ("นี้", 1),
    ],
)  # fmt: skip
def test_lengths_are_in_letters_for_scripts_without_spaces(line, count):
    assert words_and_letters(line) == count
