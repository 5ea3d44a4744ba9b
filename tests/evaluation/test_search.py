"""fairseq's beam search. Whole commands: tests/integration/test_search.py."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator

from diverse_mha.common.progress import Progress
from diverse_mha.corpora.subwords import join_subwords
from diverse_mha.evaluation import search as module
from diverse_mha.evaluation.models import Loaded
from tests.toy import build_ours, dictionary_of, toy_batch, toy_task

CFG = SimpleNamespace(generation=SimpleNamespace(lm_weight=0.0))


class Task:
    """A task whose translations have seven subwords."""

    target_dictionary = toy_task().target_dictionary

    def build_generator(self, models, options, extra_gen_cls_kwargs):
        length = {"max_len_b": 7, "min_len": 7}
        return SequenceGenerator(models, self.target_dictionary, beam_size=2, **length)

    def inference_step(self, generator, models, sample, constraints):
        return generator.generate(models, sample)


@pytest.fixture
def search():
    return module.BeamSearch(Loaded("x.pt", "ours", [build_ours().eval()], Task()), CFG, fast=False)


def batch(*numbers: int) -> dict:
    sample = toy_batch()
    sample["nsentences"] = len(sample["net_input"]["src_tokens"])
    sample["id"] = torch.tensor(numbers)
    return sample


def test_the_first_hypothesis_of_each_sentence_is_its_translation(search):
    sample = batch(*range(len(toy_batch()["net_input"]["src_tokens"])))
    hypotheses = search._generator.generate([*search.loaded.models], sample)
    sample["id"] = sample["id"].flip(0)
    found = dict(search.best([sample]))
    for number, (expected, *_) in zip(sample["id"].tolist(), hypotheses, strict=True):
        assert found[number].tokens.equal(expected["tokens"].int())
        assert found[number].score == pytest.approx(float(expected["score"]))


def test_progress_bar_counts_sentences_and_search_steps(search, monkeypatch, capsys):
    """Steps are shown because one batch of an untrained model may take minutes."""
    monkeypatch.setattr("diverse_mha.common.progress.EVERY", 0.0)
    original = EnsembleModel.forward_decoder
    count = len(toy_batch()["net_input"]["src_tokens"])
    samples = [batch(*range(count)), batch(*range(count, 2 * count))]
    with Progress("translating", "sentences", 2 * count) as progress:
        assert len(dict(search.best(samples, progress))) == 2 * count
    assert EnsembleModel.forward_decoder is original
    head = f"translating: 0 of {2 * count} sentences, batch at token"
    printed = capsys.readouterr().err.splitlines()
    assert printed[:8] == [f"{head} {n} of at most 8" for n in range(1, 9)]
    assert printed[8] == f"translating: {count} of {2 * count} sentences"
    assert len(printed) == 17


@pytest.mark.parametrize(
    "subwords, kind, text",
    [
        (["\u0085", "lo@@", "w"], "subword_nmt", "\u0085 low"),
        (["\u2581lo", "w", "\ufdd0"], "sentencepiece", "low\u2581"),
        (["lo@@", "w"], None, "lo@@ w"),
    ],
)
def test_a_translation_is_text_without_subwords(search, monkeypatch, subwords, kind, text):
    words = dictionary_of(subwords)
    monkeypatch.setattr(search.loaded.task, "target_dictionary", words)
    tokens = torch.tensor([words.index(subword) for subword in subwords] + [words.eos()])
    best = {"tokens": tokens, "score": torch.tensor(-1.0)}
    monkeypatch.setattr(search.loaded.task, "inference_step", lambda *_, **__: [[best]])
    ((_, found),) = search.best([{"id": torch.tensor([0])}])
    assert join_subwords(found.subwords, kind) == text
