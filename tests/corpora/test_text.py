"""Reading and tokenising text."""

import pytest

from diverse_mha.corpora.text import count_lines, make_tokeniser, read_lines


def test_only_newlines_end_lines(tmp_path):
    r"""Crawled text has \x85, \u2028 and \r inside lines, where str.splitlines would cut."""
    path = tmp_path / "text"
    path.write_bytes("a\x85b\u2028c\rd\x0ce\r\nf".encode())
    assert list(read_lines(path)) == ["a\x85b\u2028c\rd\x0ce", "f"]
    assert count_lines(path) == 2


def test_only_the_first_byte_order_mark_goes(tmp_path):
    (tmp_path / "text").write_text("\ufeffa\n\ufeffb\n\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "text")) == ["a", "\ufeffb", ""]


@pytest.mark.parametrize("data, lines", [(b"", 0), (b"a", 1), (b"a\n", 1), (b"\n\n", 2)])
def test_count_lines(tmp_path, data, lines):
    (tmp_path / "text").write_bytes(data)
    assert count_lines(tmp_path / "text") == len(list(read_lines(tmp_path / "text"))) == lines


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
