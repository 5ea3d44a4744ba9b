"""The papers' tables: values, rows and experiments."""

from pathlib import Path

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS
from experiments import papers
from experiments.measures import MEASURES
from experiments.numbers import Choices, Results, fill, plan_table, read
from experiments.papers import PAPERS, Experiment, find
from experiments.runs import Place
from experiments.scales import CORPORA

TABLES = [item for items in PAPERS.values() for item in items.values()]

# For a paper, table and row: values typed from the papers, independently of the tables in code.
SAMPLES = {
    ("li2018", "table-1", "sub+pos"): [1.11, 24.38],
    ("li2018", "table-1", "sub+pos+out"): [1.05, 24.60],
    ("li2018", "table-2", "enc+dec"): [1.11, 24.69],
    ("li2018", "table-3", "big+disagreement"): [0.47, 25.08, 0.51, 29.28],
    ("li2018", "table-4", "out"): [0.989, 0.006, 0.997],
    ("li2018", "table-5", "pos"): [0.217, 0.167, 0.219, 0.242, 0.233, 0.249],
    ("li2021", "table-3", "enc-simple"): [100.6e6, 1.23, 27.98],
    ("li2021", "table-3", "all-em"): [125.8e6, 0.66, 28.47],
    ("li2021", "table-4", "1+2"): [92.2e6, 1.67, 28.26],
    ("li2021", "table-5", "big+both"): [297e6, 29.09, 337e6, 25.12],
    ("li2021", "table-6", "big+aggregation"): [288e6, 28.65],
    ("li2021", "table-7", "BShif"): [51.45, 53.54, 50.97, 54.26],
    ("li2021", "table-7", "SOMO"): [49.87, 49.58, 50.09, 50.13],
    ("li2021", "table-7", "semantic"): [73.38, 73.34, 74.76, 75.08],
    ("yun2021", "table-1", "d512"): [33.33, 33.42, 33.90, 33.67, 32.69],
    ("yun2021", "table-1", "d128"): [31.30, 32.75, 31.71, None, None],
    ("yun2021", "table-2", "dec-self"): [0.474, 0.4, 0.353, 0.328, 0.237],
    ("yun2021", "table-3", "16h-512d"): [0.252, 0.117],
    ("yun2021", "table-4", "hsic"): [34.43, 30.32],
    ("yun2021", "table-5", "drophead-0.5"): [0.709, 0.527],
    ("yun2021", "table-5", "hsic-1e-6"): [0.325, 0.125],
    ("yun2021", "table-6", "all"): [31.76, 25.91, 53.02, 45.23, 52.69, 47.33],
    ("yun2021", "table-7", "ortho"): [102.62],
    ("zheng2021", "table-1", "coda"): [246.96e6, 17.81, 18.48],
    ("zheng2021", "table-1", "transformer-published"): [246.93e6, 17.97, 18.70],
    ("zheng2021", "table-2", "transformer"): [60.92e6, 27.4, 39.47e6, 34.5],
    ("zheng2021", "table-2", "coda"): [60.94e6, 28.0, 39.48e6, 35.6],
    ("zheng2021", "table-3", "heads-16"): [33.91, 35.84, 5.15, 4.55],
    ("zheng2021", "table-4", "realformer"): [8.53, 35.01],
}
ROWS = {
    "li2018": [7, 5, 4, 4, 4],
    "li2021": [7, 7, 8, 4, 13, 4, 4],
    "yun2021": [4, 3, 9, 5, 10, 5, 5, 2, 3, 9, 10],
    "zheng2021": [3, 2, 4, 4, 2, 4, 4, 2, 2],
    "study": [17, 16, 11, 12, 13, 31, 6, 10, 5, 4, 5, 15, 4],
}


@pytest.mark.parametrize(("paper", "table", "name"), SAMPLES)
def test_published_values_in_the_tables_equal_those_in_the_papers(paper, table, name):
    *_, row = find(paper, table).only(name).rows
    values = [cell and cell.paper for cell in row.cells]
    expected = SAMPLES[paper, table, name]
    assert values == expected + [None] * (len(values) - len(expected))


def test_every_table_has_all_rows():
    for paper, counts in ROWS.items():
        assert [len(table.rows) for table in PAPERS[paper].values()] == counts, paper


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.paper}-{t.name}")
def test_row_names_and_cells_of_a_table_are_valid(table):
    names = [row.name for row in table.rows]
    assert len(set(map(str.lower, names))) == len(names)
    assert not any("," in name for name in names), "--rows splits names at commas"
    assert table.baseline is None or table.baseline in names
    for row in table.rows:
        for cell in (cell for cell in row.cells if cell is not None):
            measure = MEASURES[cell.measure]
            # Only our studies, figures and ``svcca.top`` have no published numbers.
            other_reading = cell.measure == "svcca.top"
            plotted = table.paper == "study" or table.name.startswith("figure-")
            assert cell.paper is not None or other_reading or plotted
            assert cell.paper is None or measure.form(cell.paper)
            assert cell.measure.startswith("against.") == (cell.against is not None)
            check_experiment(cell.experiment, table.scales)


def check_experiment(experiment, scales):
    if experiment is not None:
        assert (CONFIGS / "method" / f"{experiment.method}.yaml").is_file()
        assert set(scales) <= set(CORPORA[experiment.corpus])


TOML = """
[[table]]
name = "table-1"
title = "A title"
corpus = "ptb"
columns = [{ head = "x", measure = "perplexity" }]
rows = [{ name = "one", label = "One", method = "hsic", "criterion.hsic_weight" = 0.1 }]
"""


def test_a_custom_table_is_read_from_toml(monkeypatch):
    monkeypatch.setattr(papers, "PAPERS", {})
    papers.add_tables("own", TOML)
    (row,) = papers.find("own", "1").rows
    assert row.cells[0].experiment == Experiment(
        "ptb", "hsic", settings={"criterion.hsic_weight": 0.1}
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method", "metod", "metod: unknown key of a table; choose from "),
        ('head = "x", ', "", "own: a table, row or column has no 'head'; add it"),
        ("[[table]]", "[[table]", "own: not readable as TOML: .*; correct it"),
        ("perplexity", "perplexty", "own table-1: unknown measure 'perplexty'; choose from "),
        ('corpus = "ptb"', 'corpus = "ptb"\nbaseline = "x"', "unknown baseline 'x'; choose from"),
    ],
)
def test_mistakes_in_a_custom_table_are_reported(old, new, message, monkeypatch):
    monkeypatch.setattr(papers, "PAPERS", {})
    with pytest.raises(UserError, match=message):
        papers.add_tables("own", TOML.replace(old, new))


def test_averages_of_probing_tasks_are_means_of_their_rows():
    table = find("li2021", "7")
    surface = table.only("Surface")
    assert [row.name for row in surface.rows] == ["SeLen", "WC", "surface"]
    choices, found = Choices("paper", (1, 2)), {}
    for row, accuracy in (("SeLen", 90.0), ("WC", 80.0)):
        for need in plan_table(table.only(row), choices).needs.values():
            value = {"accuracy": accuracy + need.run.seed, "examples": 10}
            found[need.run] = {"scores": {"accuracy": {"subsets": {"test": value}}}}
    filled = fill(Results(plan_table(surface, choices), Place(Path(), Path()), found, {}.get))
    assert filled[-1][1][0].ours == (86.0, 87.0) and filled[-1][1][0].paper == 96.69
    for row in table.rows:  # the paper's averages are means of its rows, up to rounding
        for column, cell in enumerate(row.cells if row.mean_of else ()):
            parts = [other.cells[column].paper for other in table.rows if other.name in row.mean_of]
            assert sum(parts) / len(parts) == pytest.approx(cell.paper, abs=0.02)


def test_a_damaged_score_is_to_be_deleted_with_the_translations_beside_it(tmp_path):
    for name, cure in (("test.json", r"test\.\* there"), ("result.json", "it")):
        (tmp_path / name).write_text("{")
        with pytest.raises(UserError, match=f"{name}: .*; delete {cure} and run again$"):
            read(tmp_path / name)
