"""Input of ``diverse-mha translate``. The search is tested in tests/integration/."""

import io
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
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
    translator._longest, translator._encode = most, str
    translator._options = SimpleNamespace(buffer=9, max_tokens=given)
    with pytest.raises(UserError, match=f"^line 3: 7 subwords, {cure}$"):
        list(translator.translate(["a", "", "a b c d e f"]))
