"""Extracts sentences from the mark-up of translation corpora: WMT .sgm, IWSLT .xml, IWSLT talks."""

import html
import re
from collections.abc import Callable, Iterable, Iterator

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.IGNORECASE | re.DOTALL)
_SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
_TITLE = re.compile(r"</?(?:title|description)>")
_TALK_TAG = re.compile(
    r"\s*</?(?:url|talkid|keywords|speaker|reviewer|translator|doc)\b", re.IGNORECASE
)


def segments(lines: Iterable[str]) -> Iterator[str]:
    """Yield the text of each ``<seg>`` element of a WMT ``.sgm`` or IWSLT ``.xml`` file.

    The files are not well-formed XML. Character references are resolved, and each run of white
    space becomes one space. An empty segment gives an empty line.
    """
    text = "\n".join(lines)
    complete = _SEGMENT.findall(text)
    started = len(_SEGMENT_START.findall(text))
    if not complete or len(complete) != started:
        raise ValueError(
            f"{started:,} <seg> elements begin, but {len(complete):,} are complete; fetch it again"
        )
    for segment in complete:
        yield " ".join(html.unescape(segment).split())


def talks(lines: Iterable[str]) -> Iterator[str]:
    """Yield sentences, titles and descriptions of an IWSLT training file.

    It drops lines with URL, talk id, keywords or names, and removes the tags of titles and
    descriptions, like fairseq's recipe for IWSLT17. The recipe for IWSLT14 keeps lines with names.
    """
    for line in lines:
        if not _TALK_TAG.match(line):
            yield _TITLE.sub("", line).strip()


def talk_sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of an IWSLT training file, without titles and descriptions."""
    for line in lines:
        if not line.lstrip().startswith("<"):
            yield line.strip()


READERS: dict[str, Callable[[Iterable[str]], Iterator[str]]] = {
    "plain": iter,
    "segments": segments,
    "talks": talks,
    "talk sentences": talk_sentences,
}
