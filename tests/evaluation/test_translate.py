"""Input of ``diverse-mha translate``. The search is tested in tests/integration/."""

import io
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.subwords import BLANK
from diverse_mha.evaluation import translate


def test_byte_order_mark_is_removed():
    stream = io.BytesIO(b"\xef\xbb\xbfein Haus\r\n\xef\xbb\xbfzwei\n")
    assert list(translate.plain_lines(stream)) == ["ein Haus", "\ufeffzwei"]


@pytest.mark.parametrize(
    "most, given, cure",
    [
        (6, 4000, "but the model reads at most 6; split the line"),
        (6, 6, "but the model reads at most 6; split the line"),
        (1024, 6, "more than --max-tokens 6; give 7 or more"),
    ],
)
def test_too_long_line_is_reported(most, given, cure):
    translator = translate.Translator.__new__(translate.Translator)
    translator._longest, translator._encode, translator._reads_blanks = most, str, False
    translator._options = SimpleNamespace(buffer=9, max_tokens=given)
    with pytest.raises(UserError, match=f"^line 3: 7 subwords, {cure}$"):
        list(translator.translate(["a", "", "a b c d e f"]))


@pytest.mark.parametrize(("reads_blanks", "named"), [(True, [2, 4]), (False, [])])
def test_lines_whose_mark_of_a_blank_is_lost_are_named(monkeypatch, reads_blanks, named):
    translator = translate.Translator.__new__(translate.Translator)
    translator._reads_blanks, translator.blanks = reads_blanks, []
    translator._longest, translator._encode, translator._plain = 9, str, str
    translator._options = SimpleNamespace(buffer=3, max_tokens=99)
    monkeypatch.setattr(translator, "_search", lambda lines: [(line, None) for line in lines])
    lines = ["a", f"b {BLANK} c", "", f"d{BLANK}"]
    assert [line.text for line in translator.translate(lines)] == lines
    assert translator.blanks == named
