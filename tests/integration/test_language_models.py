"""Training and evaluation of language models with plain and adaptive softmax."""

import json
import math
import random
import re

import pytest
import torch

from diverse_mha.evaluation.models import open_models
from tests.integration.conftest import PLUGIN, run

pytestmark = pytest.mark.integration

TRAIN = """
--user-dir {plugin} --task exact_language_modeling --tokens-per-sample 16
--decoder-embed-dim 32 --decoder-ffn-embed-dim 48 --decoder-layers 2 --decoder-attention-heads 4
--optimizer nag --momentum 0.99 --clip-norm 0.1 --lr 0.1 --lr-scheduler cosine
--warmup-updates 2 --warmup-init-lr 1e-7 --max-update 20 --max-tokens 128 --num-workers 0
--cpu --seed 3 --ddp-backend legacy_ddp --log-format simple --log-interval 1
"""
# The options of the WikiText-103 recipe, with small clusters.
ADAPTIVE = """
--arch transformer_lm_coda_wiki103 --criterion adaptive_loss_with_diversity
--adaptive-input-cutoff 8,14 --adaptive-softmax-cutoff 8,14
--adaptive-input-factor 2 --adaptive-softmax-factor 2
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Folder of binarised lines with a vocabulary of 30 words, some frequent and some rare."""
    folder = tmp_path_factory.mktemp("words")
    generator = random.Random(2)
    for split, count in (("train", 150), ("valid", 20), ("test", 13)):
        lines = [
            " ".join(f"w{min(int(generator.expovariate(0.2)), 29)}" for _ in range(8))
            for _ in range(count)
        ]
        (folder / split).write_text("\n".join(lines) + "\n")
    prefixes = [x for s in ("train", "valid", "test") for x in (f"--{s}pref", folder / s)]
    run("fairseq_cli.preprocess", "--only-source", *prefixes, "--destdir", folder / "bin")
    return folder / "bin"


def train(text, save_dir, *options):
    common = TRAIN.format(plugin=PLUGIN).split()
    return run("fairseq_cli.train", text, *common, "--save-dir", save_dir, *options)


def test_the_wikitext_recipe_trains_and_evaluates_with_a_context_window(text, tmp_path):
    train(text, tmp_path, *ADAPTIVE.split(), "--disagreement", "output", "--dropout", 0.1)
    done = run(
        "fairseq_cli.eval_lm", text, "--path", tmp_path / "checkpoint_best.pt",
        "--user-dir", PLUGIN, "--gen-subset", "test", "--max-tokens", 64,
        "--tokens-per-sample", 16, "--context-window", 8, "--softmax-batch", 64, "--cpu",
    )  # fmt: skip
    found = re.search(r"Perplexity: ([\d.]+)", done.stdout + done.stderr)
    assert found and 1 < float(found[1]) < 40
    run(
        "diverse_mha.evaluation.evaluate_lm", tmp_path / "checkpoint_best.pt", text, "--cpu",
        "--context-window", 8, "--max-tokens", 64, "--softmax-batch", 64,
    )  # fmt: skip
    results = json.loads((tmp_path / "checkpoint_best.test.json").read_text())
    assert f"Loss (base 2): {results['loss_bits']:.4f}" in done.stdout + done.stderr
    assert f"Evaluated {results['tokens']} tokens" in done.stdout + done.stderr
    assert results["perplexity"] == pytest.approx(float(found[1]), abs=0.01)
    assert results["tokens"] == 13 * 9, "all tokens count: 13 lines of 8 words and </s>"


@pytest.mark.parametrize("first", [(), ("--add-bos-token",)], ids=["", "bos"])
def test_sentences_are_trained_and_scored_without_context(text, tmp_path, first):
    small = ["--arch", "transformer_lm_disagree", "--criterion", "cross_entropy_with_diversity"]
    train(text, tmp_path, *small, "--sample-break-mode", "eos", *first, "--lr", 0.01)
    checkpoint = tmp_path / "checkpoint_best.pt"
    done = run("diverse_mha.evaluation.evaluate_lm", checkpoint, text, "--cpu", "--by-sentence")
    assert "117 tokens in 13 sentences" in done.stdout
    rows = (tmp_path / "checkpoint_best.test.scores.tsv").read_text().splitlines()
    found = [float(row.split("\t")[0]) for row in rows]
    assert [row.split("\t")[1] for row in rows] == ["9"] * 13
    results = json.loads((tmp_path / "checkpoint_best.test.json").read_text())
    assert results["loss_nats"] * 117 == pytest.approx(-math.fsum(found), rel=1e-4)

    loaded = open_models(checkpoint, text, cpu=True, heads=True)
    loaded.task.load_dataset("test")
    lines = (text.parent / "test").read_text().splitlines()
    words = loaded.task.dictionary
    start = [words.bos(), words.eos()] if first else [words.eos()]
    for line, score in zip(lines, found, strict=True):
        tokens = words.encode_line(line, add_if_not_exist=False).long()
        before = torch.cat([torch.tensor(start), tokens[:-1]])[None]
        with torch.no_grad():
            probabilities = loaded.model.get_normalized_probs(loaded.model(before), log_probs=True)
        by_hand = probabilities[0, len(start) - 1 :].gather(1, tokens[:, None]).sum()
        assert score == pytest.approx(by_hand.item(), abs=1e-3)


def test_lines_over_the_length_limit_are_counted(text, tmp_path):
    small = ["--arch", "transformer_lm_disagree", "--criterion", "cross_entropy_with_diversity"]
    train(text, tmp_path, *small, "--lr", 0.01)
    state = torch.load(tmp_path / "checkpoint_best.pt", weights_only=False)
    for group, key in (("task", "tokens_per_sample"), ("model", "max_target_positions")):
        state["cfg"][group][key] = 4
    torch.save(state, tmp_path / "short.pt")
    arguments = [tmp_path / "short.pt", text, "--cpu", "--by-sentence"]
    done = run("diverse_mha.evaluation.evaluate_lm", *arguments, check=False)
    assert done.returncode != 0
    assert (
        "test: 117 of its 117 tokens are in lines longer than the 4 tokens that the model reads; "
        "shorten the lines, or leave out --by-sentence"
    ) in done.stderr


def test_by_sentence_refuses_a_context_window(text, tmp_path):
    arguments = [tmp_path / "x.pt", text, "--by-sentence", "--context-window", 8]
    task = {"task": {"_name": "language_modeling"}}
    torch.save({"model": {"w": torch.zeros(1)}, "cfg": task}, arguments[0])
    done = run("diverse_mha.evaluation.evaluate_lm", *arguments, check=False)
    assert done.returncode == 2
    assert "--context-window 8: does not go with --by-sentence" in done.stderr
