"""Scores and errors of evaluate-lm."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation import evaluate_lm as evaluate_lm

WORDS = 12
LINES = [[4, 5, 6, 7, 2], [8, 9, 2], [10, 11, 12, 13, 14, 15, 4, 2]]  # 2 is </s>
TASK = {"_name": "language_modeling", "tokens_per_sample": 16, "sample_break_mode": "none"}


@pytest.fixture
def data(tmp_path):
    """Binarised text of three lines: 16 tokens including </s>."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dict.txt").write_text("".join(f"w{i} 1\n" for i in range(WORDS)))
    builder = MMapIndexedDatasetBuilder(str(folder / "test.bin"))
    for line in LINES:
        builder.add_item(torch.tensor(line))
    builder.finalize(str(folder / "test.idx"))
    return folder


def save(path, task):
    """Write a file that looks like a checkpoint."""
    state = {"model": {"w": torch.zeros(2)}, "cfg": {"task": task}, "args": None}
    torch.save({**state, "optimizer_history": [{"num_updates": 7}]}, path)
    return path


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with the parts that evaluate-lm reads before scoring."""
    return save(tmp_path / "best.pt", TASK)


@pytest.fixture
def scored(monkeypatch):
    """Replace fairseq-eval-lm by a stand-in that returns a loss of 3 bits over 16 tokens.

    Return the list in which the stand-in records its inputs.
    """
    calls = []

    def score(inputs, *rest):
        calls.append(inputs)
        return evaluate_lm.Scores(3.0, 16, {})

    monkeypatch.setattr(evaluate_lm, "score", score)
    return calls


def test_result_is_written_beside_the_checkpoint(data, checkpoint, scored, capsys):
    assert evaluate_lm.main([f"{checkpoint}", f"{data}", "--context-window", "5"]) == 0
    results = json.loads(checkpoint.with_name("best.test.json").read_text())
    assert results["perplexity"] == 8 and results["loss_nats"] == pytest.approx(3 * math.log(2))
    assert (results["tokens"], results["updates"], results["context_window"]) == (16, 7, 5)
    assert results["tokens_per_sample"] == 16, "blocks have the length used in training"
    assert {"python", "torch", "diverse_mha"} <= results["versions"].keys()
    out = capsys.readouterr().out
    assert "test: 16 tokens in blocks of 16, context window 5" in out
    assert "perplexity      8.00 per token" in out
    assert sorted(p.name for p in checkpoint.parent.iterdir()) == [
        "best.pt",
        "best.test.json",
        "bin",
    ]


def test_options_of_fairseq_are_passed_on(data, checkpoint, scored, tmp_path):
    arguments = [f"{checkpoint}", f"{data}", "--output", f"{tmp_path / 'new/x.json'}"]
    evaluate_lm.main([*arguments, "--no-progress-bar", "--user-dir", "plugin"])
    assert scored[0].extra == ("--no-progress-bar", "--user-dir", "plugin")
    results = json.loads((tmp_path / "new/x.json").read_text())
    assert results["eval_lm_options"] == ["--no-progress-bar"]


def test_sentences_are_scored_by_the_cure_that_is_given_for_a_context_window(
    data, checkpoint, scored
):
    """The context window may come from a recipe, which the user cannot leave out."""
    words = [f"{checkpoint}", f"{data}", "--context-window", "5", "--by-sentence"]
    with pytest.raises(UserError, match="--by-sentence, .*; give --context-window 0, or leave o"):
        evaluate_lm.main(words)
    assert evaluate_lm.main([*words, "--context-window", "0"]) == 0


def test_foreign_scores_beside_the_output_are_not_replaced(data, checkpoint, scored):
    command, foreign = [f"{checkpoint}", f"{data}"], checkpoint.with_name("best.test.scores.tsv")
    foreign.write_text("mine\n")
    with pytest.raises(UserError, match="best.test.scores.tsv: exists without best.test.json"):
        evaluate_lm.main([*command, "--by-sentence"])
    assert evaluate_lm.main(command) == 0 and foreign.read_text() == "mine\n"
    foreign.with_name("best.test.json").unlink()
    for more in (["--force"], []):
        assert evaluate_lm.main([*command, "--by-sentence", *more]) == 0
        assert foreign.read_text() == ""


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_has_no_perplexity(data, checkpoint, monkeypatch, loss):
    monkeypatch.setattr(evaluate_lm, "score", lambda *given: evaluate_lm.Scores(loss, 16, {}))
    with pytest.raises(UserError, match=f"its loss is {loss} bits per token, so it has no perpl"):
        evaluate_lm.main([f"{checkpoint}", f"{data}"])
    assert not checkpoint.with_name("best.test.json").exists()


def test_tokens_and_sentences_are_counted_without_bos():
    """A batch of two blocks, of which the first scores are those of bos."""
    blocks = [[-9.0, -1.0, -2.0], [-9.0, -3.0]]
    found = [[{"positional_scores": torch.tensor(scores)}] for scores in blocks]
    scorer = SimpleNamespace(generate=lambda models, sample: found)
    loaded = SimpleNamespace(models=[], on_device=lambda batch: batch)
    batch = {"net_input": {}, "id": torch.tensor([4, 3]), "ntokens": 5}
    scores = evaluate_lm._add_up(loaded, scorer, [batch, {}], bos=True)
    assert scores.tokens == 3 and scores.loss == pytest.approx(2 / math.log(2))
    assert scores.sentences == {4: (-3.0, 2), 3: (-3.0, 1)}
    assert scores.text() == "-3.000000\t1\n-3.000000\t2\n", "in the order of the text"
    with_bos = evaluate_lm._add_up(loaded, scorer, [batch], bos=False)
    assert with_bos.tokens == 5 and with_bos.loss == pytest.approx(24 / 5 / math.log(2))


def test_lines_that_the_model_cannot_read_are_counted(data, checkpoint, monkeypatch):
    monkeypatch.setattr(evaluate_lm, "score", lambda *given: evaluate_lm.Scores(3.0, 14, {}))
    with pytest.raises(UserError, match="test: 2 of its 16 tokens are in lines longer"):
        evaluate_lm.main([f"{checkpoint}", f"{data}"])
