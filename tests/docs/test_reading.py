"""Pages are short enough to read, and their links work."""

import re

import pytest

from tests.docs.blocks import ROOT

#: Maximum words of a page, counted as by ``wc -w``.
WORDS = {
    "README.md": 700,
    "docs/README.md": 380,
    "docs/results.md": 900,
    "docs/study.md": 900,
    "results/plans/heads.md": 300,
    "results/plans/family.md": 290,
    "results/plans/similarity.md": 380,
    "results/plans/drophead.md": 300,
    "results/plans/dropout.md": 300,
    "results/plans/output-weight.md": 300,
    "results/plans/corpus.md": 380,
    "docs/performance.md": 930,
    "docs/reliability.md": 900,
    "docs/data.md": 940,
    "docs/which-method.md": 600,
    "CONTRIBUTING.md": 500,
    "docs/attention.md": 500,
    "docs/classification.md": 450,
    "docs/cluster.md": 470,
    "docs/deploy.md": 650,
    "docs/design.md": 1000,
    "docs/equations.md": 2050,
    "docs/extending.md": 1100,
    "docs/install.md": 580,
    "docs/errors.md": 370,
    "docs/recipes.md": 900,
    "docs/options.md": 1600,
    "docs/reproduce.md": 900,
    "docs/hub.md": 600,
    "docs/heads.md": 900,
    "docs/align.md": 900,
    "docs/arrays.md": 350,
    "docs/analysis.md": 1450,
}
PLANS = [page for page in WORDS if page.startswith("results/plans/")]
TOTAL = 21_520  # of all pages but plans
LONGEST = 35  # maximum words of a sentence
DECIMALS = 2  # maximum decimal numbers in a paragraph, outside tables and code
FOLDERS = (".", "docs", "results", "results/plans")
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


@pytest.mark.parametrize("name", WORDS)
def test_a_page_is_within_its_budget(name):
    assert len(text_of(name).split()) <= WORDS[name]


def test_the_budgets_of_all_guides_add_up_to_at_most_the_total():
    assert sum(words for page, words in WORDS.items() if page not in PLANS) <= TOTAL


@pytest.mark.parametrize("name", WORDS)
def test_sentences_are_short_and_paragraphs_have_few_numbers(name):
    for paragraph in paragraphs(text_of(name)):
        for sentence in sentences(paragraph):
            assert len(sentence.split()) <= LONGEST, sentence
        figures = re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)", re.sub(r"`[^`]*`", "", paragraph))
        assert len(figures) <= DECIMALS, paragraph


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
