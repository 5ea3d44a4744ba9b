"""BLEU scores and files of results."""

import errno

import pytest

from diverse_mha.common import files
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation import scores as bleu


@pytest.fixture
def no_japanese(monkeypatch):
    """Make sacreBLEU lack its Japanese tokeniser; return the end of the expected message."""

    def missing(*args, **options):
        raise RuntimeError("\nJapanese needs more.\nInstall it.\n\n    pip install x\n")

    monkeypatch.setattr("sacrebleu.metrics.bleu.BLEU", missing)
    return r' here \(Japanese needs more.\); pip install "sacrebleu\[ja\]"'


def test_language_that_sacrebleu_cannot_tokenise_is_refused(no_japanese):
    with pytest.raises(UserError, match=f"cannot tokenise jpn{no_japanese}"):
        bleu.check_scorer("jpn")


def test_bleu_is_100_for_equal_text_and_equals_a_hand_computation():
    lines = ["the cat sat on the mat .", "a dog ran ."]
    plain = ["the cat sat on the mat.", "a dog ran."]
    scores = bleu.bleu_scores(lines, plain, lines, plain, target_lang="en")
    assert scores["tokenised_bleu"] == scores["sacrebleu"] == 100
    assert "tok:none" in scores["tokenised_signature"]
    assert "tok:13a" in scores["sacrebleu_signature"]
    assert scores["chrf"] == 100 and "chrF2" not in scores and "nc:6" in scores["chrf_signature"]
    for code in ("zh", "zh-CN", "cmn"):
        scores = bleu.bleu_scores(*4 * [["好"]], target_lang=code)
        assert "tok:zh" in scores["sacrebleu_signature"]
    # 5 tokens, the last one wrong: precisions 4/5, 3/4, 2/3, 1/2, and no brevity penalty.
    scores = bleu.bleu_scores(
        ["a b c d x"], ["a b c d x"], ["a b c d e"], ["a b c d e"], target_lang="en"
    )
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert scores["tokenised_bleu"] == pytest.approx(expected, abs=1e-4)


def test_scores_are_case_sensitive_by_default():
    hypothesis, reference = ["The cat sat down"], ["the cat sat down"]
    cased = bleu.bleu_scores(hypothesis, hypothesis, reference, reference, target_lang="en")
    uncased = bleu.bleu_scores(
        hypothesis, hypothesis, reference, reference, target_lang="en", lowercase=True
    )
    assert cased["tokenised_bleu"] < uncased["tokenised_bleu"] == 100
    assert "case:lc" in uncased["sacrebleu_signature"]


def test_compounds_are_split_into_three_tokens():
    split = bleu.split_compounds
    assert split("das Nord-Ost-Tor , a - b , 3-4") == (
        "das Nord ##AT##-##AT## Ost ##AT##-##AT## Tor , a - b , 3 ##AT##-##AT## 4"
    )
    assert split("-x y-") == "-x y-", "a hyphen at the end of a word is not split off"


def test_compound_split_bleu_equals_a_hand_computation():
    """After splitting, 5 of 6 unigrams, 4 of 5 bigrams, 3 of 4 trigrams, 2 of 3 4-grams match."""
    hypothesis, reference = ["x b-c d e"], ["a b-c d e"]
    plain = bleu.bleu_scores(hypothesis, hypothesis, reference, reference, target_lang="en")
    both = bleu.bleu_scores(
        hypothesis, hypothesis, reference, reference, target_lang="en", compound_split=True
    )
    assert "compound_split_bleu" not in plain and plain.items() <= both.items()
    expected = 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25
    assert both["compound_split_bleu"] == pytest.approx(expected, abs=1e-4)
    assert both["compound_split_signature"].endswith("|compounds:split")


def test_interrupted_writing_leaves_no_scores(tmp_path, monkeypatch):
    output = tmp_path / "model.json"
    output.write_text("{}")

    def fail(part, path):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        bleu.write_evaluation(output, ["a"], ["a"], {})
    assert list(tmp_path.iterdir()) == []
