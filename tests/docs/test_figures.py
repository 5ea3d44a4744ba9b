"""Intervals of the README and of which-method are those of the results."""

import re

import pytest

from tests.docs.blocks import ROOT

INTERVAL = re.compile(r"\[([+-]?\d+\.\d+),\s+([+-]?\d+\.\d+)\]")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


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
