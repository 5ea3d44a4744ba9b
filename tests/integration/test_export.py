"""Exported checkpoints work without the plugin: in stock fairseq and in CTranslate2."""

import re

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task

import diverse_mha
from tests.integration.conftest import PLUGIN, run
from tests.integration.test_language_models import text  # noqa: F401  a fixture
from tests.integration.test_language_models import train as train_lm

pytestmark = pytest.mark.integration
diverse_mha.register()


def export(checkpoint, output, form: str = "fairseq", *options, **kwargs):
    arguments = ["export", checkpoint, output, "--format", form, *options]
    return run("diverse_mha.cli", *arguments, **kwargs)


def hypotheses(done) -> dict:
    return dict(re.findall(r"^H-(\d+)\t(.*)$", done.stdout, re.M))


def test_fairseq_generate_gives_the_same_translations_without_the_plugin(trained, data, tmp_path):
    own, exported = trained / "checkpoint_last.pt", tmp_path / "stock.pt"
    assert str(exported) in export(own, exported).stdout
    assert exported.stat().st_size < 0.6 * own.stat().st_size  # the export has no optimizer state
    search = ["--beam", 3, "--cpu", "--max-len-b", 12]
    ours = run("fairseq_cli.generate", data, "--path", own, "--user-dir", PLUGIN, *search)
    stock = run("fairseq_cli.generate", data, "--path", exported, *search)
    found, expected = hypotheses(stock), hypotheses(ours)
    assert len(found) == 8, "stock fairseq translates 8 and drops the last 2 of 10"
    for number, line in found.items():
        score, words = line.split("\t")
        own_score, own_words = expected[number].split("\t")
        assert words == own_words
        assert float(score) == pytest.approx(float(own_score), rel=1e-4)


def test_ctranslate2_gives_the_scores_of_our_language_model(text, tmp_path):  # noqa: F811
    ctranslate2 = pytest.importorskip("ctranslate2")
    plain = ["--arch", "transformer_lm_disagree_tiny", "--criterion", "cross_entropy"]
    train_lm(text, tmp_path, *plain, "--max-update", 3)
    own, model = tmp_path / "checkpoint_last.pt", tmp_path / "model"
    export(own, model, "ctranslate2", "--data", text)
    (ours,), _, task = load_model_ensemble_and_task([str(own)], {"data": str(text)})
    ours.eval()
    generator = ctranslate2.Generator(str(model))
    for line in (text.parent / "test").read_text().splitlines():
        words = ["</s>", *line.split(), "</s>"]
        (found,) = generator.score_batch([words])
        tokens = torch.tensor([[task.dictionary.index(word) for word in words]])
        with torch.no_grad():
            scores = ours.get_normalized_probs(ours(tokens[:, :-1]), log_probs=True)
        expected = scores[0].gather(1, tokens[0, 1:, None])[:, 0]
        assert found.tokens == words[1:]
        assert found.log_probs == pytest.approx(expected.tolist(), abs=1e-4)
