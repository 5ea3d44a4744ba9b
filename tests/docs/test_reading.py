"""Sentences of pages are not too long, links work, and quoted intervals are in the results."""

import re

import pytest

from tests.docs.blocks import ROOT

LONGEST = 40  # maximum words of a sentence
FOLDERS = (".", "docs", "results", "results/plans")
#: Pages for users. The texts in results/ are an archive.
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{p.name}" for p in sorted(ROOT.glob("docs/*.md"))),
]
ALL = [page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def paragraphs(text: str) -> list[str]:
    """Return paragraphs and list items, without code, tables, headings and comments."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->|<img.*?>", "\n", text, flags=re.M | re.S)
    text = re.sub(r"^(\||#| {4}).*$", "\n", text, flags=re.M)
    text = re.sub(r"^ *([-*]|\d+\.) ", "\n", text, flags=re.M)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences."""
    plain = re.sub(r"\]\([^)]*\)|\*\*", "", paragraph).replace("et al.", "et al")
    return re.split(r"(?<=[.?!:])\s+(?=[A-Z`\[(*\"])", plain)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", PAGES)
def test_sentences_have_at_most_40_words(name):
    long = [
        sentence
        for paragraph in paragraphs(text_of(name))
        for sentence in sentences(paragraph)
        if len(sentence.split()) > LONGEST
    ]
    assert not long


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            found = page.parent / file if file else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found.read_text(encoding="utf-8")), target


INTERVAL = re.compile(r"\[([+-]?\d+\.\d+),\s+([+-]?\d+\.\d+)\]")


@pytest.mark.parametrize("name", ["README.md", "docs/which-method.md"])
def test_a_quoted_interval_appears_in_the_results(name):
    # The results may have more digits. The sign is reversed where the text compares the other way.
    text = text_of("docs/results.md") + text_of("results/details.md")
    found = [(float(low), float(high)) for low, high in INTERVAL.findall(text)]
    known = [*found, *((-high, -low) for low, high in found)]
    for low, high in INTERVAL.findall(text_of(name)):
        near = 0.501 * 10 ** -len(low.partition(".")[2])
        assert any(
            abs(float(low) - one) <= near and abs(float(high) - other) <= near
            for one, other in known
        ), f"[{low}, {high}]"
