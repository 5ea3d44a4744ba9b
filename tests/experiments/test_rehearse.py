"""Rehearsals of the paper scale."""

import csv

import pytest

from diverse_mha import cli
from experiments.numbers import Choices, needs_of
from experiments.papers import PAPERS, find
from experiments.rehearse import COLUMNS, TYPES, shapes


def paper_runs():
    for table in (table for items in PAPERS.values() for table in items.values()):
        if "paper" in table.scales:
            for need in needs_of(table, Choices("paper")):
                yield from need.runs


def test_models_of_equal_size_are_rehearsed_once():
    runs = list(dict.fromkeys(paper_runs()))
    groups = list(shapes(runs))
    assert sorted(run.name for _, group in groups for run in group) == sorted(r.name for r in runs)
    assert 60 < len(groups) < 110 < len(runs)
    assert {run.recipe.config for run, _ in groups} == set(TYPES)
    table = find("yun2021", "5")  # HSIC at three weights, Drophead at three rates
    needs = needs_of(table, Choices("paper"))
    assert sorted(len(group) for _, group in shapes(n.run for n in needs[::3])) == [1, 3, 3, 3]


@pytest.mark.integration
def test_the_smallest_model_is_rehearsed(tmp_path, capsys):
    words = ["reproduce", "li2021", "figure-4", "--scale", "paper", "--rows", "baseline"]
    words += ["--rehearse", "--out", str(tmp_path)]
    assert cli.run(words) == 0, capsys.readouterr().out
    with (tmp_path / "rehearsal.csv").open() as lines:
        (row,) = csv.DictReader(lines)
    assert tuple(row) == COLUMNS and row["failure"] == ""
    assert int(row["parameters"]) == 1_914_119 and float(row["peak GiB"]) > 0.1
    assert cli.run(words) == 0
    assert "1.91M parameters" in capsys.readouterr().out
    assert len(list(tmp_path.glob("rehearsal/paper/runs/*"))) == 0, "checkpoints are removed"
