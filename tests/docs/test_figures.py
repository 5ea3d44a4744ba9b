"""Figures of the README are those of the pages that it takes them from."""

import re

from tests.docs.blocks import ROOT


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str, head: str) -> dict[str, dict[str, str]]:
    """Give the rows of the first table with this head: by the first cell, by column."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    columns = [cell.strip() for cell in lines[start].strip("|").split("|")]
    table = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        table[cells[0]] = dict(zip(columns, cells, strict=True))
    return table


def test_the_results_are_those_of_the_page():
    readme, there = (rows(page(n), "| recipe |") for n in ("README.md", "docs/results.md"))
    assert readme.keys() == there.keys() and readme
    for recipe, row in readme.items():
        assert row == {column: there[recipe][column] for column in row}, recipe


def test_the_signature_is_that_of_the_page():
    (signature,) = re.findall(r"`(nrefs:[^`]+)`", page("README.md"))
    assert signature in page("docs/results.md")


def test_no_other_score_stands_in_the_readme():
    # A figure that no page holds could not be compared above.
    text = page("README.md")
    scores = re.findall(r"\b\d\d\.\d+\b", text.partition("## With your own recipe")[0])
    assert sorted(scores) == sorted(r["sacreBLEU"] for r in rows(text, "| recipe |").values())
