"""``reproduce --rehearse``: one update of every distinct model at its real size."""

import csv

import pytest

from diverse_mha import cli
from diverse_mha.common.files import ROOT
from experiments import rehearse
from experiments.numbers import Choices, plan_table
from experiments.papers import PAPERS, find
from experiments.rehearse import COLUMNS, TYPES, _others, shapes


def paper_runs():
    for table in (table for items in PAPERS.values() for table in items.values()):
        if "paper" in table.scales:
            yield from plan_table(table, Choices("paper")).runs


def test_models_of_equal_size_are_rehearsed_once():
    runs = list(dict.fromkeys(paper_runs()))
    groups = list(shapes(runs))
    assert sorted(run.name for _, group in groups for run in group) == sorted(r.name for r in runs)
    assert 60 < len(groups) < 110 < len(runs)
    assert {run.recipe.config for run, _ in groups} == set(TYPES)
    table = find("yun2021", "5")  # HSIC at three weights, Drophead at three rates
    runs = plan_table(table, Choices("paper")).runs
    assert sorted(len(group) for _, group in shapes(runs)) == [1, 3, 3, 3]


def test_the_published_rehearsal_covers_every_model_of_the_tables():
    with (ROOT / "results/rehearsal.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    known = {
        (run.recipe.config, run.choices.get("size", ""), run.choices["method"], _others(run)): group
        for run, group in shapes(dict.fromkeys(paper_runs()))
    }
    assert {tuple(row.values())[:4] for row in rows} == known.keys() and len(rows) == len(known)
    for row in rows:
        assert 1 <= int(row["runs"]) <= len(known[tuple(row.values())[:4]])
        assert row["failure"] == "" and float(row["seconds"]) > 0 and float(row["peak GiB"]) > 0
        # For big_8_heads, the paper's number contradicts the paper's equations (li2021.toml).
        if (paper := row["paper's parameters"]) and row["size"] != "big_8_heads":
            assert int(row["parameters"]) == pytest.approx(float(paper), rel=0.01)


def test_a_rehearsal_resumes_and_keeps_rows_of_other_tables(tmp_path, monkeypatch, capsys):
    seen = []

    def carry_out(run, out):
        seen.append(run.choices["method"])
        return 1_000_000, 2.0, 0.5, "broke" if run.choices["method"] == "hsic" else ""

    monkeypatch.setattr(rehearse, "_carry_out", carry_out)
    table = find("yun2021", "7")

    def plans(rows):
        return [plan_table(table.only(rows), Choices("paper"))]

    assert not rehearse.rehearse(plans("baseline,hsic"), tmp_path)
    assert rehearse.rehearse(plans("drophead"), tmp_path)
    assert not rehearse.rehearse(plans("baseline,hsic"), tmp_path)
    assert sorted(seen) == ["baseline", "drophead", "hsic", "hsic"], (
        "a failed rehearsal is repeated"
    )
    with (tmp_path / "rehearsal.csv").open() as lines:
        rows = {row["method"]: row["failure"] for row in csv.DictReader(lines)}
    assert rows == {"baseline": "", "hsic": "broke", "drophead": ""}
    assert "1.00M parameters, 2.0 s, 0.5 GiB (already done)" in capsys.readouterr().out


@pytest.mark.integration
def test_the_smallest_model_is_rehearsed(tmp_path, capsys):
    arguments = ["reproduce", "li2021", "figure-4", "--scale", "paper", "--rows", "baseline"]
    arguments += ["--rehearse", "--out", str(tmp_path)]
    assert cli.run(arguments) == 0, capsys.readouterr().out
    with (tmp_path / "rehearsal.csv").open() as lines:
        (row,) = csv.DictReader(lines)
    assert tuple(row) == COLUMNS and row["failure"] == ""
    assert int(row["parameters"]) == 1_913_863 and float(row["peak GiB"]) > 0.1
    assert cli.run(arguments) == 0
    assert "1.91M parameters" in capsys.readouterr().out
    assert len(list(tmp_path.glob("rehearsal/paper/runs/*"))) == 0, "checkpoints are removed"
