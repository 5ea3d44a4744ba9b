"""Plain text on standard input; what comes of it is tested in integration/."""

import argparse
import io
import sys

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy import translate


@pytest.mark.parametrize(
    "stream, cure", [("stdin", "input .* < TEXT"), ("stdout", "output .* > FILE")]
)
def test_a_closed_stream_is_one_line(stream, cure, monkeypatch):
    monkeypatch.setattr(sys, stream, None)  # what Python makes of <&- and >&-
    with pytest.raises(UserError, match=f"standard {cure}"):
        translate.run(argparse.Namespace(checkpoint="no.pt", data="no"))


def test_a_byte_order_mark_is_no_text():
    stream = io.BytesIO(b"\xef\xbb\xbfein Haus\r\n\xef\xbb\xbfzwei\n")
    assert list(translate.plain_lines(stream)) == ["ein Haus", "\ufeffzwei"]
