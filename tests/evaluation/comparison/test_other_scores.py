"""``diverse-mha compare`` tests perplexities, accuracies and scores of other programs."""

import json
import random
from pathlib import Path

import pytest
from scipy import stats

from diverse_mha import cli
from diverse_mha.common.errors import UserError


@pytest.mark.parametrize(
    ("content", "measure"),
    [
        (lambda x: {"perplexity": x, "subset": "test"}, "perplexity"),
        (
            lambda x: {
                "subsets": {
                    "valid": {"accuracy": 1, "examples": 5},
                    "test1": {"accuracy": x - 1, "examples": 30},
                    "test2": {"accuracy": x + 3, "examples": 10},
                }
            },
            "accuracy",
        ),
    ],
)
def test_perplexity_and_accuracy_are_compared_over_seeds(tmp_path, content, measure, capsys):
    values = {"base": (80.0, 82.0, 81.0), "other": (78.0, 77.0, 79.5)}
    for method, scores in values.items():
        for seed, score in enumerate(scores, start=1):
            run = tmp_path / f"{method}-seed{seed}"
            run.mkdir()
            (run / "checkpoint_best.test.json").write_text(json.dumps(content(score)))
            (run / "valid.json").write_text(json.dumps({"perplexity": 3, "subset": "valid"}))
    given = [[str(tmp_path / f"{m}-seed{n}") for n in (1, 2, 3)] for m in values]
    output = tmp_path / "out.json"
    cli.run(["compare", "--baseline", *given[0], "--system", *given[1], "--output", str(output)])
    found = json.loads(output.read_text())["systems"][1]["measures"][measure]
    assert found["values"] == list(values["other"])
    paired = stats.ttest_rel(*values.values()).pvalue
    assert found["difference"]["p"] == pytest.approx(paired) and found["over_seeds"] is None
    assert f"By seed ({measure}): " in capsys.readouterr().out
    # Files without a seed in their names share no seeds, so the test is unpaired.
    for number, run in enumerate(run for group in given for run in group):
        (tmp_path / f"{number}.json").write_text(Path(run, "checkpoint_best.test.json").read_text())
    given = [[f"x={tmp_path}/0.json"], [f"y={tmp_path}/3.json"]]
    for group, numbers in zip(given, ((1, 2), (4, 5)), strict=True):
        group += [str(tmp_path / f"{n}.json") for n in numbers]
    cli.run(["compare", "--baseline", *given[0], "--system", *given[1], "--output", str(output)])
    found = json.loads(output.read_text())["systems"][1]["measures"][measure]
    expected = stats.ttest_ind(values["other"], values["base"], equal_var=False)
    assert found["difference"]["p"] == pytest.approx(expected.pvalue)
    assert "Welch's t over seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        (
            {"perplexity": 9, "tokens": 100},
            {"perplexity": 8, "tokens": 200},
            r"differs from .*a-seed1.json in tokens \(200, not 100\); compare results on one",
        ),
        (
            {"perplexity": 9, "dictionary": "ab" * 32},
            {"perplexity": 8, "dictionary": "cd" * 32},
            "has another dictionary than .*a-seed1.json; compare results on one",
        ),
        (
            {"subsets": {"test": {"accuracy": 50, "examples": 10, "majority": 50}}},
            {"subsets": {"test": {"accuracy": 60, "examples": 10, "majority": 60}}},
            r"in most frequent class of test \(60, not 50\)",
        ),
        (
            {"subsets": dict.fromkeys(("test", "test7"), {"accuracy": 50, "examples": 10})},
            {"subsets": {"test": {"accuracy": 60, "examples": 10}}},
            r"in test sets \(test, not test, test7\)",
        ),
    ],
)
def test_scores_of_different_texts_are_not_compared(tmp_path, one, other, differs):
    for name, content in (("a-seed1", one), ("b-seed1", other)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    arguments = ["--baseline", f"{tmp_path}/a-seed1.json", "--system", f"{tmp_path}/b-seed1.json"]
    with pytest.raises(UserError, match=f"b-seed1.json: .*{differs}"):
        cli.run(["compare", *arguments])


def test_external_scores_are_tested_over_sentences_and_seeds(tmp_path, capsys):
    generator = random.Random(5)
    sentences = [generator.gauss(0.8, 0.05) for _ in range(200)]
    files = {}
    for name, gain in (("base", 0), ("good", 0.02), ("same", 0)):
        for seed in (1, 2, 3):
            values = [s + gain + generator.gauss(0, 0.01) for s in sentences]
            files[name, seed] = tmp_path / f"{name}-seed{seed}.txt"
            files[name, seed].write_text("".join(f"{value}\n" for value in values))

    arguments = ["--output", str(tmp_path / "out.json")]
    for name in ("base", "good", "same"):
        first, *more = (str(files[name, seed]) for seed in (1, 2, 3))
        arguments += ["--scores", f"{name}={first}", *more]
    assert cli.run(["compare", *arguments]) == 0
    _, good, same = json.loads((tmp_path / "out.json").read_text())["systems"]
    found = good["measures"]["score"]
    assert found["difference"]["value"] == pytest.approx(0.02, abs=0.005)
    assert found["difference"]["p"] < 0.001 < 0.05 < same["measures"]["score"]["difference"]["p"]
    assert found["over_seeds"]["degrees"] == 4, "seeds are read from file names"
    assert "+0.0" in capsys.readouterr().out


def test_external_scores_need_equal_line_counts(tmp_path):
    for name, lines in (("a", 3), ("b", 2)):
        (tmp_path / name).write_text("0.5\n" * lines)
    with pytest.raises(UserError, match=r"b: differs from .*a in scores \(2, not 3\); compare"):
        cli.run(["compare", "--scores", f"x={tmp_path}/a", "--scores", f"y={tmp_path}/b"])


@pytest.mark.parametrize("option", ["--scores", "--system"])
def test_equal_results_are_named_in_every_kind_of_comparison(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    generator = random.Random(5)
    for name in ("base1", "base2", "other"):
        scores = [generator.gauss(0.8, 0.05) for _ in range(40)]
        text = "".join(f"{score}\n" for score in scores)
        if option == "--system":
            text = json.dumps({"perplexity": 2 ** -sum(scores), "subset": "test", "seconds": 1})
        Path(name).write_text(text)
    Path("copy").write_text(Path("base1").read_text())
    for runs, other, named in (
        (["base1", "base2"], "other", None),
        (["base1", "base2"], "copy", "base1, copy"),
        (["base1", "base2", "copy"], "other", "base1, copy"),
    ):
        words = [option, f"base={runs[0]}", *runs[1:], option, f"other={other}"]
        assert cli.run(["compare", *words]) == 0
        out = capsys.readouterr().out
        assert f"Equal results: {named}." in out if named else "Equal results" not in out
    words = [option, "base=base1", "copy", option, "other=other", "base2", "--output", "out.json"]
    assert cli.run(["compare", *words]) == 0
    _, other = json.loads(Path("out.json").read_text())["systems"]
    assert not any(measure["difference"]["over_seeds"] for measure in other["measures"].values())


def test_equal_accuracies_are_no_sign_of_a_copy(tmp_path, capsys):
    words = []
    for name in ("a", "b"):
        score = {"examples": 4, "accuracy": 50.0, "majority": 50.0}
        (tmp_path / f"{name}.json").write_text(json.dumps({"subsets": {"test": score}}))
        words += ["--system", f"{name}={tmp_path}/{name}.json"]
    assert cli.run(["compare", *words]) == 0
    assert "Equal results" not in capsys.readouterr().out
