"""Figures of the README are those of the pages that it takes them from."""

import re
from decimal import ROUND_HALF_UP, Decimal

from tests.docs.blocks import ROOT


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str, head: str) -> dict[str, list[str]]:
    """Give the cells of every row of the first table with this head, by the first cell."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    table = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        table[name] = cells
    return table


def table_after(name: str, sentence: str, head: str) -> dict[str, list[str]]:
    return rows(page(name).partition(sentence)[2], head)


def same(figure: str, full: str) -> bool:
    """Whether a figure is another one, rounded."""
    return str(Decimal(full).quantize(Decimal(figure), ROUND_HALF_UP)) == figure


# The README's names of rows: of the two tables of docs/results.md, and of the one of speeds.
NAMES = {
    "baseline": ("baseline", "no method"),
    "Disagreement (Output)": (
        "Disagreement (Output, all three components)",
        "output disagreement, all components",
    ),
    "Aggregation (EM routing, encoder 1-2)": (
        "Aggregation (EM routing, encoder layers 1-2)",
        "EM routing, encoder layers 1-2",
    ),
    "Both": ("Both", None),
}
SCORE, EXP_D = 3, 6  # columns of docs/results.md: sacreBLEU, Out. of the encoder


def test_the_results_are_those_of_the_pages():
    readme = rows(page("README.md"), "| | BLEU, `multi30k_small`")
    small = table_after("docs/results.md", "\n`multi30k_small`: width", "| model |")
    full = table_after("docs/results.md", "\n`multi30k`: feed-forward", "| model |")
    speed = table_after("docs/performance.md", "Base (C 512", "| variant |")
    assert set(readme) == set(NAMES)
    compared = 0
    for row, cells in readme.items():
        result, timed = NAMES[row]
        expected = [
            small[result][SCORE],
            full.get(result, [""] * 9)[SCORE],
            small[result][EXP_D],
            speed[timed][0].split()[0] if timed else "",
            speed[timed][3] if timed else "",
        ]
        for figure, there in zip(cells, expected, strict=True):
            assert bool(figure) == bool(there), (row, figure, there)
            assert not figure or same(figure, there), (row, figure, there)
            compared += bool(figure)
    assert compared == 15


def test_the_signature_and_the_sentences_below_the_table():
    readme, results = page("README.md"), page("docs/results.md")
    (signature,) = re.findall(r"`(nrefs:[^`]+)`", readme)
    assert signature in results
    table = rows(results, "| Table 2: the output term on")
    for words, row in ((r"on the encoder", "Enc"), (r"on all components", "Enc, E-D, Dec")):
        cost, spread = re.search(rf"(\d\.\d) ± (\d\.\d) {words}", readme).groups()
        mean, deviation = re.fullmatch(r"-(\S+) ± (\S+)", table[row][3]).groups()
        assert same(cost, mean) and same(spread, deviation), row
    speeds = page("docs/performance.md")
    ratio, low, high, small = re.search(
        r"its ratio is (\S+) at Base \(interval (\S+) to (\S+)\)\s+and (\S+) at", readme
    ).groups()
    there = re.search(r"with fairseq's loss, is (\S+) \((\S+)-(\S+)\)", speeds).groups()
    assert all(map(same, (ratio, low, high), there))
    line = rows(speeds.partition("Shape and batches that `multi30k_small`")[2], "| variant |")
    assert same(small, line["`output-stock-loss`"][2].split()[0])
