"""Figures of the README are those of the pages that it takes them from."""

import re

import pytest

from tests.docs.blocks import ROOT

#: How the tables of results in the README begin.
TABLES = ("| recipe |", "| method, to the end |")
INTERVAL = re.compile(r"\[([+-]?\d+\.\d+),\s+([+-]?\d+\.\d+)\]")


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


@pytest.mark.parametrize("head", TABLES)
def test_the_results_are_those_of_the_page(head):
    readme, there = (rows(page(n), head) for n in ("README.md", "docs/results.md"))
    assert readme and readme.keys() <= there.keys()
    assert head == TABLES[0] or readme.keys() == there.keys(), "no method is left out"
    for name, row in readme.items():
        assert row == {column: there[name][column] for column in row}, name


@pytest.mark.parametrize("name", ["README.md", "docs/which-method.md"])
def test_an_interval_is_one_of_the_results(name):
    # There it may have more digits, and the other sign where the words say what is ahead.
    found = [(float(low), float(high)) for low, high in INTERVAL.findall(page("docs/results.md"))]
    known = [*found, *((-high, -low) for low, high in found)]
    for low, high in INTERVAL.findall(page(name)):
        near = 0.501 * 10 ** -len(low.partition(".")[2])
        assert any(
            abs(float(low) - one) <= near and abs(float(high) - other) <= near
            for one, other in known
        ), f"[{low}, {high}]"


def test_the_signature_is_that_of_the_page():
    (signature,) = re.findall(r"`(nrefs:[^`]+)`", page("README.md"))
    assert signature in page("docs/results.md")


def test_no_other_score_stands_in_the_readme():
    # A figure that no page holds could not be compared above.
    text = page("README.md")
    lines = text.partition("## With your own recipe")[0].splitlines()
    prose = [line for line in lines if not line.startswith("|")]
    assert not re.findall(r"\b\d\d\.\d+\b", "\n".join(prose))
    tables = sum(line.startswith("|---") for line in lines)
    assert tables == len(TABLES), "each of them is compared above"
