"""The published runs of the study are rows of it, and what the page says of them is theirs."""

import itertools
import json

import pytest

from diverse_mha.training.log import read_log
from diverse_mha.training.reproduce.fill import Choices
from diverse_mha.training.reproduce.papers.study import TABLES
from tests.docs.blocks import ROOT
from tests.docs.test_figures import page, rows

RUNS = ROOT / "docs" / "study-runs"
SEEDS = (1, 2, 3, 4, 5)
PUBLISHED = sorted(path.parent for path in RUNS.glob("small/runs/*/result.json"))


def planned() -> dict:
    """Give table, row, precision and seed of every run of the study, by its folder."""
    found = {}
    for bf16 in (None, False):
        choices = Choices("small", bf16=bf16)
        for table in TABLES:
            for row, seed in itertools.product(table.rows, SEEDS):
                run = choices.run(row.cells[0].experiment, table, seed)
                found[run.folder(RUNS)] = table, row, bf16, seed
    return found


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_run_is_one_of_the_study(folder):
    table, _, _, seed = planned()[folder]
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (result["name"], result["seed"]) == (folder.name, seed)
    assert read_log(folder / "train.log")["validation"][-1]["num_updates"] == result["updates"]
    if table.name.startswith("translation"):
        score = json.loads((folder / "test.json").read_text(encoding="utf-8"))
        lines = (folder / "test.hyp.detok").read_text(encoding="utf-8").splitlines()
        assert result["scores"]["test"] == {k: v for k, v in score.items() if k != "versions"}
        assert len(lines) == score["sentences"]


@pytest.mark.parametrize(
    ("head", "bf16"), [("| method |", None), ("| method, in float32 |", False)]
)
def test_the_page_has_their_scores(head, bf16):
    by_label = rows(page("docs/results.md"), head)
    found = {}
    for folder in PUBLISHED:
        table, row, precision, seed = planned()[folder]
        if table.name == "translation-small" and precision is bf16:
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            column = "sacreBLEU" if bf16 is None else f"seed {seed}"
            score = f"{result['scores']['test']['sacrebleu']:.2f}"
            found[row.label, column] = score
    assert found
    assert found == {(label, column): by_label[label][column] for label, column in found}
