"""Input of ``diverse-mha translate``. The search is tested in tests/integration/."""

import io
import sys
from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.corpora.subwords import BLANK
from diverse_mha.evaluation import translate
from diverse_mha.evaluation.engine import Found


class Echo:
    """An engine that returns each sentence."""

    languages = ("a", "b")

    def __init__(self, longest: int = 99):
        self.longest, self.sizes = longest, []

    def translate(self, text, progress=None):
        self.sizes.append(len(text.sentences()))
        return (Found(sentence, 0.0) for sentence in text.sentences())


def translated(engine, lines, **options):
    return translate.translate(engine, lines, str, " ".join, **{"max_tokens": 99} | options)


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
    found = translated(Echo(most), ["a", "", "a b c d e f"], buffer=9, max_tokens=given)
    with pytest.raises(UserError, match=f"^line 3: 7 subwords, {cure}$"):
        next(found)


def test_lines_stay_in_order_and_empty_lines_are_not_searched():
    engine, lines = Echo(), ["a", "", " ", "b c", "d", ""]
    found = [*translated(engine, lines, buffer=4)]
    assert [one.text for one in found] == ["a", "", "", "b c", "d", ""]
    assert [one.source for one in found] == lines and engine.sizes == [2, 1]


@pytest.mark.parametrize(("reads_blanks", "named"), [(True, "line 2 and 1 more"), (False, "")])
def test_lines_whose_mark_of_a_blank_is_lost_are_named(monkeypatch, capsys, reads_blanks, named):
    made = SimpleNamespace(post_process=None, method="")
    side = SimpleNamespace(
        encode=lambda: str, detokenise=lambda: str.strip, made=made, model=None
    )  # fmt: skip
    monkeypatch.setattr(translate, "_open", lambda args: Echo())
    monkeypatch.setattr(translate, "read_side", lambda *_: side)
    monkeypatch.setattr(translate, "reads_blanks", lambda *_: reads_blanks)
    lines = ["a", f"b {BLANK} c", "", f"d{BLANK}"]
    stdin = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out := io.BytesIO(), encoding="utf-8"))
    args = {"user_dir": None, "alignments": None, "data": "", "buffer": 3, "max_tokens": 99}
    translate.run(SimpleNamespace(**args))
    sys.stdout.flush()
    assert out.getvalue().decode().splitlines() == lines
    assert (f"note: {named}" in capsys.readouterr().err) is bool(named)
