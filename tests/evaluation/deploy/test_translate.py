"""What is refused before plain text is translated; the search is tested in integration/."""

import io
import sys
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy import translate


@pytest.mark.parametrize(
    "stream, cure", [("stdin", "input .* < TEXT"), ("stdout", "output .* > FILE")]
)
def test_a_closed_stream_is_one_line(stream, cure, monkeypatch):
    monkeypatch.setattr(sys, stream, None)  # what Python makes of <&- and >&-
    with pytest.raises(UserError, match=f"standard {cure}"):
        translate.run(SimpleNamespace(checkpoint="no.pt", data="no"))


def test_a_byte_order_mark_is_no_text():
    stream = io.BytesIO(b"\xef\xbb\xbfein Haus\r\n\xef\xbb\xbfzwei\n")
    assert list(translate.plain_lines(stream)) == ["ein Haus", "\ufeffzwei"]


@pytest.mark.parametrize(
    "most, given, message",
    [
        (6, 4000, r"line 3: 7 subwords, and at most 6 are read at once; split it \(at the end of"),
        (1024, 5, "line 3: 7 subwords, .* 5 are read at once; --max-tokens 5 is too small for it"),
    ],
)
def test_a_line_too_long_is_named_with_what_sets_the_limit(most, given, message):
    def count(lines, encode):
        return lines, [len(line.split()) + 1 for line in lines]

    task = SimpleNamespace(get_interactive_tokens_and_lengths=count)
    translator = translate.Translator.__new__(translate.Translator)
    translator._hub = SimpleNamespace(task=task, max_positions=(most, most))
    translator._encode, translator._options = str, SimpleNamespace(buffer=9, max_tokens=given)
    with pytest.raises(UserError, match=message):
        list(translator.translate(["a", "", "a b c d e f"]))
