"""Reading, checking, tokenising and filtering parallel text."""

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.text import (
    check_parallel,
    count_lines,
    filter_pairs,
    keep_pair,
    make_tokeniser,
    read_lines,
    write_lines,
)


def test_only_newlines_end_lines(tmp_path):
    r"""Crawled text has \x85, \u2028 and \r inside lines, where str.splitlines would cut."""
    path = tmp_path / "text"
    path.write_bytes("a\x85b\u2028c\rd\x0ce\r\nf".encode())
    assert list(read_lines(path)) == ["a\x85b\u2028c\rd\x0ce", "f"]
    assert count_lines(path) == 2


@pytest.mark.parametrize("data, lines", [(b"", 0), (b"a", 1), (b"a\n", 1), (b"\n\n", 2)])
def test_count_lines(tmp_path, data, lines):
    (tmp_path / "text").write_bytes(data)
    assert count_lines(tmp_path / "text") == len(list(read_lines(tmp_path / "text"))) == lines


def test_text_that_is_not_utf8_is_refused_by_name(tmp_path):
    (tmp_path / "latin").write_bytes("größer".encode("latin-1"))
    with pytest.raises(UserError, match="latin is not UTF-8 text"):
        list(read_lines(tmp_path / "latin"))


def test_sides_of_different_length_are_refused_with_both_counts(tmp_path):
    write_lines(tmp_path / "train.de", ["x"] * 1200)
    write_lines(tmp_path / "train.en", ["x"] * 1199)
    with pytest.raises(UserError, match=r"train.de has 1,200 lines, .*train.en has 1,199;") as info:
        check_parallel(tmp_path / "train.de", tmp_path / "train.en")
    assert "\n" not in str(info.value)


def test_empty_sides_are_refused(tmp_path):
    write_lines(tmp_path / "a", [])
    with pytest.raises(UserError, match="are empty"):
        check_parallel(tmp_path / "a", tmp_path / "a")


@pytest.mark.parametrize(
    "options, sentence, tokens",
    [
        ({}, "Er sagt: „Ja, z. B. heute.“", 'Er sagt : &quot; Ja , z. B. heute . &quot;'),
        ({}, "ein grau-weißer Hund", "ein grau-weißer Hund"),
        ({"aggressive": True}, "ein grau-weißer Hund", "ein grau @-@ weißer Hund"),
        ({"lowercase": True}, "Zwei Männer.", "zwei männer ."),
        ({"normalise": False}, "„Ja“", "„ Ja “"),
        ({"normalise": False}, "a\x01b", "ab"),
        ({}, "a\u2028b\rc\td\x00e\xa0f", "a b c d e f"),
        ({}, "", ""),
    ],
)  # fmt: skip
def test_tokeniser(options, sentence, tokens):
    assert make_tokeniser("de", **options)(sentence) == tokens


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
def test_keep_pair_with_at_most_8_tokens_and_ratio_3(source, target, kept):
    assert keep_pair(source, target, max_length=8, max_ratio=3.0) is kept


def test_filter_keeps_pairs_together(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c", "d")]
    write_lines(paths[0], ["1 1", "2", "", "4"])
    write_lines(paths[1], ["x", "y", "z", ""])
    assert filter_pairs(paths[:2], paths[2:], keep_pair) == (2, 4)
    assert paths[2].read_text() == "1 1\n2\n" and paths[3].read_text() == "x\ny\n"


def test_filter_that_leaves_nothing_is_an_error(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c", "d")]
    write_lines(paths[0], ["1"])
    write_lines(paths[1], [""])
    with pytest.raises(UserError, match="passes the length filter"):
        filter_pairs(paths[:2], paths[2:], keep_pair)
