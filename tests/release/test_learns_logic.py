"""The classifier learns what is learnable: relations of formulas of at most two operators."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
UPDATES = 3000  # 14 epochs

TRAIN = f"""
--user-dir {ROOT / "diverse_mha"} --task sentence_classification --accuracy-by length
--arch sentence_classifier_tiny --pooling queries --classifier-layers 3
--encoder-normalize-before --dropout 0.0
--criterion sentence_classification_with_diversity
--optimizer adam --adam-betas (0.9,0.98) --lr 2e-3 --lr-scheduler polynomial_decay
--warmup-updates 200 --total-num-update {UPDATES} --max-update {UPDATES}
--batch-size 64 --required-batch-size-multiple 1 --num-workers 0 --cpu --seed 1
--no-epoch-checkpoints --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric
--log-format simple --log-interval 200
"""


def run(*command) -> None:
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_pairs_of_at_most_two_operators_are_learnt(tmp_path):
    """More than 95 % of pairs that were held out; always answering '#' gives 60 %."""
    prepare = ["--out", tmp_path / "logic", "--train-operators", 2, "--seed", 1]
    run("diverse_mha.cli", "prepare-logic", *prepare)
    data = tmp_path / "logic" / "bin"
    run("fairseq_cli.train", data, *TRAIN.split(), "--save-dir", tmp_path / "run")
    checkpoint = tmp_path / "run" / "checkpoint_best.pt"
    words = [checkpoint, data, "--subset", "test1,test2", "--cpu"]
    run("diverse_mha.evaluation.classifier", *words)
    subsets = json.loads((tmp_path / "run" / "checkpoint_best.accuracy.json").read_text())[
        "subsets"
    ]
    pairs = sum(result["examples"] for result in subsets.values())
    right = sum(result["examples"] * result["accuracy"] for result in subsets.values())
    assert pairs > 1500
    assert max(result["majority"] for result in subsets.values()) < 70
    assert right / pairs > 95, subsets
