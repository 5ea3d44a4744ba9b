"""Progress: a bar on a terminal, lines elsewhere."""

import io
import sys

import pytest

from diverse_mha.common import progress


def test_without_a_terminal_progress_lines_are_periodic(monkeypatch, capsys):
    assert list(progress.with_progress("abc", "scoring", "batches")) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    assert list(progress.with_progress("abc", "scoring", "batches")) == ["a", "b", "c"]
    assert capsys.readouterr().err == "scoring: 1 of 3 batches\nscoring: 2 of 3 batches\n"
    list(progress.with_progress(iter("ab"), "translating", "lines"))
    assert capsys.readouterr().err == "translating: 1 line\ntranslating: 2 lines\n"


@pytest.mark.parametrize("total", [None, 3])
def test_progress_bar_disappears_on_a_terminal(monkeypatch, total):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress.with_progress(iter("abc"), "drawing", "figures", total=total)) == [
        "a",
        "b",
        "c",
    ]
    printed = terminal.getvalue()
    assert "drawing" in printed and " figures" in printed and "\n" not in printed


def test_note_of_a_long_item_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.Progress("translating", "sentences", 1000) as bar:
        bar.note("batch at token 7")
        bar.advance(250)
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        "translating: 0 of 1,000 sentences, batch at token 7",
        "translating: 250 of 1,000 sentences",
    ]


@pytest.mark.parametrize(
    ("number", "noun", "printed"),
    [
        (0, "line", "0 lines"),
        (1, "line", "1 line"),
        (1234, "line", "1,234 lines"),
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
    ],
)
def test_a_count_of_one_is_singular(number, noun, printed):
    assert progress.counted(number, noun) == printed
