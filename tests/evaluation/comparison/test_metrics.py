"""BLEU and chrF of resampled test sets equal those of sacreBLEU."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from diverse_mha.evaluation.comparison.statistics import (
    METRICS,
    bleu,
    chrf,
    draws,
    resampled_scores,
    sentence_statistics,
)


def texts(sentences=25, models=3, seed=1):
    generator = random.Random(seed)
    reference = [
        " ".join(f"Wort{generator.randrange(12)}" for _ in range(generator.randrange(1, 9))) + "."
        for _ in range(sentences)
    ]

    def spoil(line, share):
        words = [w.upper() if generator.random() < 0.2 else w for w in line.split()]
        return " ".join(w for w in words if generator.random() > share)

    return reference, [[spoil(x, 0.1 * (n + 1)) for x in reference] for n in range(models)]


@pytest.mark.parametrize("lowercase", [False, True])
def test_resampled_scores_equal_scores_of_resampled_text(lowercase):
    """The reference writes out every resampled test set and scores it with ``corpus_score``."""
    reference, systems = texts()
    counted = [
        sentence_statistics(system, reference, tokenize="13a", lowercase=lowercase)
        for system in systems
    ]
    counts = np.concatenate(list(draws(25, 40, seed=3)))
    assert (counts.sum(axis=1) == 25).all() and len(counts) == 40
    slow = {"BLEU": BLEU(lowercase=lowercase), "chrF": CHRF(lowercase=lowercase)}
    for name, metric in METRICS.items():
        statistics = np.stack([found[name] for found in counted])
        fast = resampled_scores(statistics, metric, resamples=40, seed=3)
        for row, drawn in zip(fast, counts, strict=True):
            places = np.repeat(np.arange(25), drawn.astype(int))
            for score, system in zip(row, systems, strict=True):
                text = [system[place] for place in places]
                expected = slow[name].corpus_score(text, [[reference[p] for p in places]])
                assert score == pytest.approx(expected.score, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("a b c d", "a b c d"),
        ("a", "a"),  # no n-grams of higher order
        ("a b x y", "a b c d"),  # scored with smoothing
        ("", "a b"),
        ("x", "a b c d e"),
        ("a b c d e f g h", "a b c"),
        ("ab", "b a"),
    ],
)
def test_scores_of_unusual_sentences_equal_those_of_sacrebleu(hypothesis, reference):
    found = sentence_statistics([hypothesis], [reference], tokenize="13a", lowercase=False)
    expected = BLEU(force=True).corpus_score([hypothesis], [[reference]]).score
    assert float(bleu(found["BLEU"][0])) == pytest.approx(expected, abs=1e-9)
    expected = CHRF().corpus_score([hypothesis], [[reference]]).score
    assert float(chrf(found["chrF"][0])) == pytest.approx(expected, abs=1e-9)
