"""How pages are written: sentences, tables, captions, links and quoted intervals."""

import re

import pytest

from tests.docs.blocks import ROOT
from tests.docs.reading import (
    dangling,
    is_fragment,
    own_words,
    paragraphs,
    sentences,
    tables,
    uncaptioned,
    unexplained,
    unintroduced,
)

LONGEST = 40  # maximum words of a sentence
#: Largest share of sentences without a finite verb, over all pages. Lower it when it has fallen.
FRAGMENTS = 0.05
FOLDERS = (".", "docs", "docs/methods", "results", "results/plans")
#: Pages for users. The texts in results/ are an archive.
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{p.name}" for p in sorted(ROOT.glob("docs/*.md"))),
    *(f"docs/methods/{p.name}" for p in sorted(ROOT.glob("docs/methods/*.md"))),
]
ALL = [page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def prose_of(name: str) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(name), flags=re.M | re.S)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def sentences_of(name: str) -> list[str]:
    return [one for paragraph in paragraphs(text_of(name)) for one in sentences(paragraph)]


@pytest.mark.parametrize("name", PAGES)
def test_sentences_have_at_most_40_words(name):
    assert not [one for one in sentences_of(name) if len(one.split()) > LONGEST]


@pytest.mark.parametrize("name", PAGES)
def test_no_sentence_begins_with_a_reference_that_lacks_its_noun(name):
    text = text_of(name)
    cells = [cell for table in tables(text) for row in table for cell in row]
    assert not [one for part in [*paragraphs(text), *cells] for one in dangling(part)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The first takes an hour.", True),
        ("The second of them is short.", True),
        ("The first command takes an hour.", False),
        ("Run both. Elsewhere give a path.", True),
        ("Both were tried.", True),
        ("Both commands were tried.", False),
        ("Those with one head are refused.", True),
        ("It prints a table.", True),
        ("The command runs. It prints a table.", False),
        ("This needs a GPU.", True),
        ("This command needs a GPU.", False),
    ],
)
def test_references_without_a_noun_are_detected(text, found):
    assert bool(dangling(text)) is found


def test_the_share_of_sentences_without_a_verb_has_not_risen():
    everything = [(name, one) for name in PAGES for one in sentences_of(name)]
    found = [f"{name}: {one}" for name, one in everything if is_fragment(one)]
    assert len(found) / len(everything) <= FRAGMENTS, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("Without bfloat16: 2.5 times as long.", True),
        ("Recipes, tables.", True),
        ("Two readings of SVCCA.", True),
        ("To train on, with `is`.", True),
        ("Training takes 2.5 times as long.", False),
        ("For another Python, set a variable.", False),
        ("A model scores the text.", False),
    ],
)
def test_sentences_without_a_verb_are_detected(text, fragment):
    assert is_fragment(text) is fragment


#: Words of the glossary that readers of the field do not have, and that have no everyday meaning.
WORDS = ["aggregation", "cascade", "component", "head state", "logit map", "recipe", "term"]


def test_words_of_the_project_are_in_the_glossary_in_order():
    text = text_of("docs/glossary.md")
    assert set(WORDS) <= set(own_words(text))
    heads = [head.lower() for head in re.findall(r"^## (.+)$", text, re.M)]
    assert heads == sorted(heads)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "docs/glossary.md"])
def test_a_page_explains_the_words_of_the_project_at_their_first_use(name):
    assert not unexplained(text_of(name), WORDS)


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        ("Each [recipe](glossary.md#recipe) has a size.", True),
        ("A recipe is a file of settings.", True),
        ("HSIC, a term in the loss, is small.", True),
        ("Change the recipe.", False),
        ("Change the recipe. A recipe is a file of settings.", False),
        ("Components add up.", False),
        ("Take `recipe.yaml`, and run `configs/recipe`.", True),
        ("# Recipe\n\nText.", True),
    ],
)
def test_words_without_an_explanation_are_detected(text, explained):
    assert (not unexplained(text, WORDS)) is explained


@pytest.mark.parametrize("name", PAGES)
def test_every_column_of_a_table_has_a_header(name):
    assert not [table[0] for table in tables(text_of(name)) if "" in table[0]]


@pytest.mark.parametrize("name", PAGES)
def test_every_table_follows_a_sentence_that_says_what_it_shows(name):
    assert not unintroduced(text_of(name))


def test_tables_without_a_sentence_are_detected():
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    for before in ("Each row is a model:", "- One row is a model.\n\n<!-- table: x -->"):
        assert not unintroduced(f"# Models\n\n{before}\n\n{table}")
    for before in ("# Models", "Text.\n\n```\noutput\n```", "# Models\n\n<!-- table: x -->"):
        assert unintroduced(f"{before}\n\n{table}") == ["| a | b |"]


def test_tables_are_found():
    assert tables("a\n\n| x |  |\n|---|---|\n| 1 | `a\\|b` |\n\nb")[0][0] == ["x", ""]
    assert sum(len(tables(text_of(name))) for name in PAGES) > 50


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_caption(name):
    assert not uncaptioned(text_of(name))


def test_pictures_without_a_caption_are_detected():
    caption = "*Ten words say what is drawn and what to see.*"
    assert not uncaptioned(f"![alt](a.png)\n\n{caption}\n\ntext")
    for after in ("", "\n\n*Too short.*", "\n\nA sentence that is not in italics, of many words."):
        assert uncaptioned(f"![alt](a.png){after}") == ["![alt](a.png)"]


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            found = page.parent / file if file else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found.read_text(encoding="utf-8")), target


#: Pages that quote intervals of the results.
QUOTING = [
    *("README.md", "docs/which-method.md"),
    *(name for name in PAGES if name.startswith("docs/methods/")),
]
INTERVAL = re.compile(r"\[([+-]?\d+\.\d+),\s+([+-]?\d+\.\d+)\]")


@pytest.mark.parametrize("name", QUOTING)
def test_a_quoted_interval_appears_in_the_results(name):
    # The results may have more digits. The sign is reversed where the text compares the other way.
    text = text_of("docs/results.md") + text_of("results/details.md")
    found = [(float(low), float(high)) for low, high in INTERVAL.findall(text)]
    known = [*found, *((-high, -low) for low, high in found)]
    for low, high in INTERVAL.findall(prose_of(name)):
        near = 0.501 * 10 ** -len(low.partition(".")[2])
        assert any(
            abs(float(low) - one) <= near and abs(float(high) - other) <= near
            for one, other in known
        ), f"[{low}, {high}]"
