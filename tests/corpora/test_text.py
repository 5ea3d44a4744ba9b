"""Reading, writing and tokenising text."""

import os
import tempfile

import pytest

from diverse_mha.corpora import chinese
from diverse_mha.corpora.text import make_detokeniser, make_tokeniser, read_lines


def test_only_newlines_end_lines(tmp_path):
    r"""Lines do not end at \x85, \u2028 and \r, which occur within lines of crawled text."""
    path = tmp_path / "text"
    path.write_bytes("a\x85b\u2028c\rd\x0ce\r\nf".encode())
    assert list(read_lines(path)) == ["a\x85b\u2028c\rd\x0ce", "f"]


def test_only_the_first_byte_order_mark_is_removed(tmp_path):
    (tmp_path / "text").write_text("\ufeffa\n\ufeffb\n\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "text")) == ["a", "\ufeffb", ""]


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
        ({}, "Zu\u0308rich", "Zürich"),
        ({"nfc": False}, "Zu\u0308rich", "Zu \u0308 rich"),
        ({"tokeniser": "none"}, "  Er  sagt: „Ja“ & so\t(今日)。 ", "Er sagt: „Ja“ & so (今日)。"),
    ],
)  # fmt: skip
def test_options_of_the_tokeniser_take_effect(options, sentence, tokens):
    assert make_tokeniser("de", **options)(sentence) == tokens


@pytest.mark.parametrize(
    "language, line",
    [
        ("de", "Zürich grüßt die Männer in der Straße!"), ("ar", "مرحبا بك في العالم، كيف حالك؟"),
        ("am", "ሰላም ለዓለም። እንዴት ነህ፣ ወንድሜ?"), ("zh", "我来到北京，参观清华大学。你好吗？"),
    ],
)  # fmt: skip
def test_detokenised_tokens_equal_the_text(language, line):
    assert make_detokeniser(language)(make_tokeniser(language)(line)) == line
    assert make_detokeniser(language, "none")("Ja , & so") == "Ja , & so"


def test_chinese_words_are_segmented_and_special_characters_escaped(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))
    chinese._segmenter.cache_clear()
    tokenise = make_tokeniser("zh")
    assert tokenise("我来到北京清华大学。") == "我 来到 北京 清华大学 。"
    assert tokenise(" UN\t& 2017 年 [1] ") == "UN &amp; 2017 年 &#91; 1 &#93;"
    assert tokenise("") == ""
    assert list(tmp_path.iterdir()) == []  # no cache file, which other users could replace
    assert capfd.readouterr() == ("", "")
