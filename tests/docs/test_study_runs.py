"""The published runs of the study are rows of it, and what the page says of them is theirs."""

import json

import pytest

from diverse_mha.training.log import read_log
from diverse_mha.training.reproduce.fill import Choices
from diverse_mha.training.reproduce.papers.study import TABLES
from tests.docs.blocks import ROOT
from tests.docs.test_figures import page, rows

RUNS = ROOT / "docs" / "study-runs"
CHOICES = Choices("small", seeds=(1, 2, 3, 4, 5))
PUBLISHED = sorted(path.parent for path in RUNS.glob("small/runs/*/result.json"))


def planned() -> dict:
    """Give the row and the seed of every run of the study, by its folder."""
    return {
        CHOICES.run(row.cells[0].experiment, table, seed).folder(RUNS): (table, row, seed)
        for table in TABLES
        for row in table.rows
        for seed in CHOICES.seeds
    }


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_run_is_one_of_the_study(folder):
    table, row, seed = planned()[folder]
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (result["name"], result["seed"]) == (folder.name, seed)
    assert read_log(folder / "train.log")["validation"][-1]["num_updates"] == result["updates"]
    if table.name.startswith("translation"):
        score = json.loads((folder / "test.json").read_text(encoding="utf-8"))
        lines = (folder / "test.hyp.detok").read_text(encoding="utf-8").splitlines()
        assert result["scores"]["test"] == {k: v for k, v in score.items() if k != "versions"}
        assert len(lines) == score["sentences"]


def test_the_page_has_their_scores():
    by_label = rows(page("docs/results.md"), "| method |")
    found = {}
    for folder in PUBLISHED:
        table, row, seed = planned()[folder]
        if table.name == "translation-small" and seed == 1:
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            found[row.label] = f"{result['scores']['test']['sacrebleu']:.2f}"
    assert found
    assert found == {label: by_label[label]["sacreBLEU"] for label in found}
