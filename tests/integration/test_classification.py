"""Sentence classification through the commands: train, resume, several processes, evaluate."""

import json
import re

import pytest

from tests.corpora import scripts
from tests.integration.conftest import PLUGIN, run

pytestmark = pytest.mark.integration

TRAIN = """
--user-dir {plugin} --task sentence_classification --accuracy-by length
--arch sentence_classifier_tiny --encoder-embed-dim 32 --encoder-ffn-embed-dim 48
--pooling queries --classifier-layers 3 --aggregation em-routing --aggregation-encoder-layers 2
--criterion sentence_classification_with_diversity --disagreement output
--optimizer adam --lr 1e-3 --lr-scheduler fixed --batch-size 32 --num-workers 0 --cpu --seed 3
--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric
--log-format simple --log-interval 5
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("logic")
    words = ["--out", out, "--draws", 1500, "--seed", 2, "--train-operators", 2]
    scripts.run("logic", *words, cwd=out)
    return out / "bin"


def train(data, folder, *options):
    common = TRAIN.format(plugin=PLUGIN).split()
    return run("fairseq_cli.train", data, *common, "--save-dir", folder, *options)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    done = train(data, folder, "--max-epoch", 3)
    (folder / "log").write_text(done.stdout + done.stderr)
    return folder


def test_accuracy_by_length_and_the_term_are_logged(trained):
    log = (trained / "log").read_text()
    valid = [line for line in log.splitlines() if "valid on" in line]
    assert len(valid) == 3
    for name in ("loss", "accuracy", "accuracy_length_1", "accuracy_length_2"):
        value = float(re.search(rf"\| {name} ([\d.]+)", valid[-1]).group(1))
        assert value > 0
    assert "disagreement_output" in valid[-1] and "accuracy_length_3" not in valid[-1]
    first, last = (float(re.search(r"\| loss ([\d.]+)", valid[n]).group(1)) for n in (0, 2))
    assert last < first


def test_evaluation_writes_every_split(data, trained):
    done = run("diverse_mha.evaluation.classifier", trained / "checkpoint_best.pt", data, "--cpu")
    result = json.loads((trained / "checkpoint_best.accuracy.json").read_text())
    names = [*(f"test{n}" for n in range(1, 13)), "valid"]
    assert list(result["subsets"]) == names
    assert set(result["subsets"]["valid"]["groups"]) == {"1", "2"}
    assert "test12: accuracy" in done.stdout and "  by length: 1 " in done.stdout
    # Batches of another size: the same answers.
    again = trained / "again.json"
    words = ["--subset", "valid", "--batch-size", 3, "--output", again, "--cpu"]
    run("diverse_mha.evaluation.classifier", trained / "checkpoint_best.pt", data, *words)
    assert json.loads(again.read_text())["subsets"]["valid"] == result["subsets"]["valid"]
