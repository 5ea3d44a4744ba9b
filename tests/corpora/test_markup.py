"""Extraction of sentences from the mark-up of WMT and IWSLT."""

import pytest

from diverse_mha.corpora.markup import segments, talk_sentences, talks

TALK = """<url>http://www.ted.com/1</url>
<keywords>talks, science</keywords>
<speaker>Some One</speaker>
<talkid>1</talkid>
<title>Some One: A title</title>
<description>TED Talk Subtitle</description>
 First sentence.
5 < 6, and 7 > 6.
<reviewer href="x">A</reviewer>
<translator href="x">B</translator>
</doc>
<doc docid="2" genre="lectures">
Second.""".split("\n")


def test_text_is_extracted_from_talks():
    assert list(talks(TALK)) == [
        "Some One: A title", "TED Talk Subtitle", "First sentence.", "5 < 6, and 7 > 6.", "Second.",
    ]  # fmt: skip
    assert list(talk_sentences(TALK)) == ["First sentence.", "5 < 6, and 7 > 6.", "Second."]


def test_segments_are_extracted():
    lines = [
        '<doc docid="a"><hl>', '<seg id="1"> Q&amp;A &lt;3 </seg>', "</hl>",
        '<seg id="2">two', "lines</seg><seg id=3></seg>", '<SEG ID="4">four</SEG>', "</doc>",
    ]  # fmt: skip
    assert list(segments(lines)) == ["Q&A <3", "two lines", "", "four"]


@pytest.mark.parametrize("text, counts", [("no mark-up", "0 .* 0"), ("<seg id=1>a", "1 .* 0")])
def test_incomplete_segments_are_refused(text, counts):
    with pytest.raises(ValueError, match=f"{counts.split(' .* ')[0]} <seg> elements begin, but"):
        list(segments([text]))
