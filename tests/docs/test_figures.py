"""Intervals of the README and of which-method are those of the results."""

import re

import pytest

from tests.docs.blocks import ROOT

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


@pytest.mark.parametrize("name", ["README.md", "docs/which-method.md"])
def test_an_interval_is_one_of_the_results(name):
    # There it may have more digits, and the other sign where the words say what is ahead.
    text = page("docs/results.md") + page("results/details.md")
    found = [(float(low), float(high)) for low, high in INTERVAL.findall(text)]
    known = [*found, *((-high, -low) for low, high in found)]
    for low, high in INTERVAL.findall(page(name)):
        near = 0.501 * 10 ** -len(low.partition(".")[2])
        assert any(
            abs(float(low) - one) <= near and abs(float(high) - other) <= near
            for one, other in known
        ), f"[{low}, {high}]"
