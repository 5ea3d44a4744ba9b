"""Significance: the sign test against brute force, sacreBLEU's tests on clear cases, refusals."""

import itertools
import json
import os
import random
from types import SimpleNamespace

import pytest

from diverse_mha import cli
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation import compare


def sign_test(better, worse):
    """Make the sign test of so many lines and a tie; a line is its own score."""
    a, b = [*"0" * better, *"1" * worse, "1"], [*"1" * better, *"0" * worse, "1"]
    metric = SimpleNamespace(sentence_score=lambda line, _: SimpleNamespace(score=int(line)))
    found, _ = compare._sign((a, b, a), metric)
    assert (found["b_better"], found["a_better"], found["ties"]) == (better, worse, 1)
    return found["p"]


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (3, 3), (5, 1), (0, 6), (7, 2), (1, 9)])
def test_sign_test_counts_all_outcomes(better, worse):
    """Brute force: the share of all sequences of coin tosses at least as uneven."""
    n = better + worse
    outcomes = [sum(tosses) for tosses in itertools.product((0, 1), repeat=n)]
    uneven = [abs(heads - n / 2) >= abs(better - n / 2) for heads in outcomes]
    assert sign_test(better, worse) == pytest.approx(sum(uneven) / len(outcomes))


def test_sign_test_of_many_sentences_does_not_overflow():
    assert sign_test(1600, 1400) == pytest.approx(0.000280, abs=2e-6)  # normal: 3.63 sd


@pytest.fixture
def files(tmp_path):
    """A reference, a bad and a good translation of 120 sentences of random words."""
    generator = random.Random(1)
    reference = [[f"w{generator.randrange(50)}" for _ in range(9)] for _ in range(120)]

    def spoil(share):
        return [[w if generator.random() > share else "x" for w in line] for line in reference]

    texts = {"ref": reference, "bad": spoil(0.4), "good": spoil(0.1)}
    for name, lines in texts.items():
        text = "\n".join(" ".join(line) for line in lines) + "\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def call(files, a, b, *options):
    words = ["compare", str(files / a), str(files / b), "--reference", str(files / "ref")]
    return cli.run([*words, *options])


def test_a_clear_difference_and_none_at_all(files, capsys):
    output = files / "out.json"
    assert call(files, "bad", "good", "--output", str(output)) == 0
    result = json.loads(output.read_text())
    assert result["bleu_b"] > result["bleu_a"] + 10 and result["sentences"] == 120
    assert all(test["p"] < 0.01 for test in result["tests"].values())
    assert set(result["tests"]) == {"bootstrap", "randomisation", "sign"}
    sign = result["tests"]["sign"]
    assert sign["n"] == sign["a_better"] + sign["b_better"] == 120 - sign["ties"]
    assert sign["p"] == sign_test(sign["b_better"], sign["a_better"])
    said = capsys.readouterr().out
    for name in ("paired bootstrap resampling", "approximate randomisation", "sign test"):
        assert name in said
    assert "p = " in said and "n = 120" in said

    call(files, "good", "good", "--output", str(output))
    tests = json.loads(output.read_text())["tests"]
    assert [test["p"] for test in tests.values()] == [1, 1, 1]


def test_decomposed_text_is_the_same_text(files):
    for name, line in {"ref": "Zu\u0308rich", "good": "Zürich", "bad": "Zurich"}.items():
        (files / name).write_text(f"{line} a b c d\n" * 3, encoding="utf-8")
    output = files / "out.json"
    call(files, "bad", "good", "--tests", "sign", "--output", str(output))
    assert json.loads(output.read_text())["bleu_b"] == pytest.approx(100)


def test_a_model_that_translates_nothing_is_compared(files):
    (files / "none").write_text("\n" * 120)
    output = files / "out.json"
    assert call(files, "none", "good", "--output", str(output)) == 0
    result = json.loads(output.read_text())
    assert result["bleu_a"] == 0 < result["bleu_b"]
    assert all(test["p"] < 0.01 for test in result["tests"].values())


@pytest.mark.parametrize("before", [None, "7"])
def test_the_environment_stays_as_it_was(files, monkeypatch, before):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before is not None:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    found = []
    for seed in ("3", "3", "4"):
        output = files / "out.json"
        options = ("--tests", "bootstrap", "--seed", seed, "--output", str(output))
        assert call(files, "good", "bad", *options) == 0
        assert os.environ.get("SACREBLEU_SEED") == before
        found.append(json.loads(output.read_text())["tests"]["bootstrap"])
    assert found[0] == found[1] != found[2], "the seed that counts is that of the command"


@pytest.mark.parametrize("more", ["", " "])
@pytest.mark.parametrize(("differ", "exact"), [(1, 1.0), (2, 0.5)])
def test_randomisation_counts_swaps_that_change_nothing(files, differ, exact, more):
    good, bad = ((files / name).read_text().splitlines() for name in ("good", "bad"))
    places = [n for n, pair in enumerate(zip(good, bad, strict=True)) if len(set(pair)) > 1]
    for place in places[:differ]:
        good[place] = bad[place]
    for place in places[differ:]:
        good[place] += more  # which no n-gram has
    (files / "near").write_text("\n".join(good) + "\n")
    output = files / "out.json"
    call(files, "near", "good", "--tests", "randomisation", "--output", str(output))
    assert json.loads(output.read_text())["tests"]["randomisation"]["p"] == pytest.approx(
        exact, abs=0.02
    )


def test_the_same_seed_gives_the_same_p(files):
    found = []
    for seed in ("7", "7", "8"):
        output = files / "out.json"
        (files / "near").write_text((files / "bad").read_text().replace("x", "y", 60))
        (files / "other").write_text((files / "bad").read_text().replace("x w", "w x", 40))
        call(
            files, "near", "other", "--tests", "bootstrap", "--seed", seed, "--output", str(output)
        )
        found.append(json.loads(output.read_text())["tests"]["bootstrap"]["bleu_b_mean"])
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "good").write_text("one\n"), "good: 1 lines, .*bad has 120"),
        (lambda f: (f / "ref").write_text("\n" * 120), "ref: is empty"),
        (lambda f: (f / "good").write_bytes(b""), "good: is empty"),
        (lambda f: (f / "good").write_bytes(b"\xff\n"), "good is not UTF-8 text"),
        (lambda f: (f / "good").unlink(), "good: no such file"),
    ],
)
def test_files_that_do_not_fit_are_refused(files, change, message):
    change(files)
    with pytest.raises(UserError, match=message):
        call(files, "bad", "good")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tests", "t-test"], "--tests t-test: unknown 't-test'; choose from bootstrap"),
        (["--tokenize", "moses"], "--tokenize moses: unknown; choose from 13a"),
        (["--seed", "0"], "--seed: 0 is not a whole number from 1 up"),
        (["--seed", "3", "--tests", "sign"], "--seed 3: --tests sign draws nothing; omit one of"),
    ],
)
def test_options_are_checked(files, options, message):
    with pytest.raises(UserError, match=message):
        call(files, "bad", "good", *options)
