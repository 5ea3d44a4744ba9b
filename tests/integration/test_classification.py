"""Training and evaluation of a sentence classifier by their commands."""

import json

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


def test_evaluation_writes_the_accuracy_of_every_split(tmp_path):
    arguments = ["--out", tmp_path, "--draws", 1500, "--seed", 2, "--train-operators", 2]
    scripts.run("logic", *arguments, cwd=tmp_path)
    data, trained = tmp_path / "bin", tmp_path / "run"
    options = TRAIN.format(plugin=PLUGIN).split()
    run("fairseq_cli.train", data, *options, "--save-dir", trained, "--max-epoch", 1)
    evaluate = [
        "diverse_mha.evaluation.evaluate_classifier",
        trained / "checkpoint_best.pt",
        data,
        "--cpu",
    ]
    done = run(*evaluate)
    result = json.loads((trained / "checkpoint_best.accuracy.json").read_text())
    names = [*(f"test{n}" for n in range(1, 13)), "valid"]
    assert list(result["subsets"]) == names
    assert set(result["subsets"]["valid"]["groups"]) == {"1", "2"}
    assert "test12: accuracy" in done.stdout and "  by length: 1 " in done.stdout
    # The batch size does not change the result.
    again = trained / "again.json"
    run(*evaluate, "--subset", "valid", "--batch-size", 3, "--output", again)
    assert json.loads(again.read_text())["subsets"]["valid"] == result["subsets"]["valid"]
