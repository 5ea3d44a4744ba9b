"""The published runs of the study are rows of it, and what the page says of them is theirs."""

import collections
import itertools
import json
import re
import shutil

import numpy as np
import pytest

from diverse_mha import cli
from diverse_mha.evaluation.comparison.inference import by_rows_and_seeds, by_t, holm
from diverse_mha.evaluation.comparison.runs import accuracy
from diverse_mha.training.log import read_log
from diverse_mha.training.reproduce.fill import Choices
from diverse_mha.training.reproduce.papers.study import ITEMS
from tests.docs.blocks import ROOT
from tests.docs.test_figures import page, rows

RUNS = ROOT / "docs" / "study-runs"
SEEDS = range(1, 10)
PUBLISHED = sorted(path.parent for path in RUNS.glob("small/runs/*/result.json"))


def planned() -> dict:
    """Give table, row, precision and seed of every run of the study, by its folder."""
    found = {}
    for bf16 in (None, False):
        choices = Choices("small", bf16=bf16)
        for table in ITEMS:
            for row, seed in itertools.product(table.rows, SEEDS):
                run = choices.run(row.cells[0].experiment, table, seed)
                found[run.folder(RUNS)] = table, row, bf16, seed
    return found


def published(name: str, bf16: bool | None = None) -> list[tuple[str, int, dict]]:
    """List label, seed and result of the published runs of a table."""
    plan, found = planned(), []
    for folder in PUBLISHED:
        table, row, precision, seed = plan[folder]
        if table.name == name and precision is bf16:
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            found.append((row.label, seed, result))
    assert found
    return found


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_run_is_one_of_the_study(folder):
    table, _, _, seed = planned()[folder]
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (result["name"], result["seed"]) == (folder.name, seed)
    assert read_log(folder / "train.log")["validation"][-1]["num_updates"] == result["updates"]
    if table.name.startswith("translation"):
        score = json.loads((folder / "test.json").read_text(encoding="utf-8"))
        lines = (folder / "test.hyp.detok").read_text(encoding="utf-8").splitlines()
        assert result["scores"]["test"] == {k: v for k, v in score.items() if k != "versions"}
        assert len(lines) == score["sentences"]


@pytest.mark.parametrize(
    ("head", "name", "bf16"),
    [
        ("| method |", "translation-small", None),
        ("| method, in float32 |", "translation-small", False),
    ],
)
def test_the_page_has_their_scores(head, name, bf16):
    by_label = rows(page("docs/results.md"), head)
    found = {
        (label, f"seed {seed}"): f"{result['scores']['test']['sacrebleu']:.2f}"
        for label, seed, result in published(name, bf16)
    }
    assert found == {(label, column): by_label[label][column] for label, column in found}


@pytest.mark.parametrize(
    ("head", "seeds"),
    [("| method, to the end |", range(1, 6)), ("| method, replication |", range(6, 10))],
)
def test_the_page_has_their_scores_to_the_end(head, seeds):
    by_label = rows(page("docs/results.md"), head)
    found = collections.defaultdict(dict)
    for label, seed, result in published("translation"):
        if seed in seeds:
            found[label][seed] = result["scores"]["test"]["sacrebleu"]
    assert found.keys() == by_label.keys()
    for label, scores in found.items():
        said = by_label[label]
        assert sorted(scores) == list(seeds)[: int(said["seeds"])], label
        assert said["BLEU, each seed"] == " ".join(f"{scores[n]:.2f}" for n in sorted(scores))
        assert said["mean"] == f"{np.mean(list(scores.values())):.2f}"


def test_the_page_has_their_scores_on_other_test_sets():
    by_label = rows(page("docs/results.md"), "| method, 2,532 other sentences |")
    named = {"baseline": "Baseline", "em_routing_1_2": "EM routing, layers 1-2"}
    assert set(named.values()) == by_label.keys()
    for name, label in named.items():
        scores = []
        for seed in range(6, 10):
            folder = RUNS / "other-tests" / f"multi30k.de-en.{name}.seed{seed}"
            score = json.loads((folder / "more.json").read_text(encoding="utf-8"))
            lines = (folder / "more.hyp.detok").read_text(encoding="utf-8").splitlines()
            assert len(lines) == score["sentences"] == 2532
            scores.append(score["sacrebleu"])
        assert by_label[label]["BLEU, each seed"] == " ".join(f"{x:.2f}" for x in scores)
        assert by_label[label]["mean"] == f"{np.mean(scores):.2f}"


def test_the_page_has_their_perplexities():
    by_label = rows(page("docs/results.md"), "| row, Penn Treebank |")
    found = {}
    for label, seed, result in published("ptb"):
        for column, split in (("test", "test"), ("validation", "valid")):
            perplexity = result["scores"][split]["perplexity"]
            found[label, f"{column}, seed {seed}"] = f"{perplexity:.2f}"
    assert found == {(label, column): by_label[label][column] for label, column in found}


def test_the_page_has_their_accuracies():
    by_label = rows(page("docs/results.md"), "| row, logic |")
    found = {}
    for label, seed, result in published("logic"):
        subsets = result["scores"]["accuracy"]["subsets"]
        said = {"validation": f"{subsets['valid']['accuracy']:.1f}"}
        for n in range(1, 13):
            said[str(n)] = f"{subsets[f'test{n}']['accuracy']:.1f}"
        for first, last, digits in ((1, 6, 1), (7, 12, 1), (1, 12, 2)):
            some = {n: subsets[f"test{n}"] for n in range(first, last + 1)}
            said[f"{first}-{last}"] = f"{accuracy(some):.{digits}f}"
        found[label if seed == 1 else f"{label}, seed {seed}"] = said
    assert found == {name: {c: by_label[name][c] for c in said} for name in by_label}


def test_their_tests_are_made_again_whatever_else_was_evaluated(tmp_path, capsys):
    for folder in (path for path in PUBLISHED if path.name.startswith("ptb.")):
        shutil.copytree(folder, tmp_path / "small/runs" / folder.name)
    for name in ("test.json", "checkpoint_best.test.json"):  # by hand, with other options
        score = {"subset": "test", "perplexity": 99.0}
        (tmp_path / "small/runs" / folder.name / name).write_text(json.dumps(score))
    words = ["reproduce", "study", "ptb", "--scale", "small", "--collect", "--out", str(tmp_path)]
    words += ["--seeds", "1,2,3"]
    assert cli.run(words) == 0, capsys.readouterr().out
    tests = json.loads((tmp_path / "small/tables/study-ptb.tests.json").read_text())["systems"]
    by_label = rows(page("docs/results.md"), "| row, Penn Treebank |")
    for one in tests[1:]:
        for measure, column, p, digits in (
            ("perplexity", "difference of test (95 %)", "p", 2),
            ("valid nll", "difference of loss (95 %)", "p of loss", 3),
        ):
            said = re.findall(r"[-+][0-9.]+", by_label[one["name"]][column])
            found, holm_p = one["measures"][measure]["difference"], one["measures"][measure]["holm"]
            exact = [found["value"], *found["interval"]]
            assert list(map(float, said)) == pytest.approx(exact, abs=0.6 * 10**-digits)
            assert float(by_label[one["name"]][p].strip("<")) == pytest.approx(holm_p, abs=1e-3)
    assert len(tests) == 5 and (tmp_path / "small/tables/study-ptb/figure.md").is_file()
    assert cli.run([*words, "--rows", "baseline,hsic"]) == 0
    tested = tmp_path / "small/tables/study-ptb-rows.tests.json"
    assert tested.exists() and cli.run([*words, "--rows", "hsic"]) == 0
    assert "no tests: they are against the row baseline, which is not" in capsys.readouterr().out
    assert not tested.exists(), "those of other rows"
    result = json.loads((tmp_path / "small/runs" / folder.name / "result.json").read_text())
    result["scores"]["test"]["tokens"] += 1
    (tmp_path / "small/runs" / folder.name / "result.json").write_text(json.dumps(result))
    assert cli.run(words) == 0, "without tests there are the table and the curves"
    assert "tests: FAILED: " in (said := capsys.readouterr().out) and "another test set" in said
    assert said.splitlines()[-2].startswith("written: ") and "learning-curves.svg" in said


#: Rows that are not in the analysis of variance (docs/study.md, Deviations).
RUINED = ("Sub., encoder", "Out., all")


@pytest.mark.parametrize(
    ("scores", "difference", "p", "digits"),
    [
        (("seed 1", "seed 2"), "difference (95 %)", "p", 2),
        (("valid nll, seed 1", "valid nll, seed 2"), "difference of nll (95 %)", "p of nll", 3),
    ],
)
def test_the_intervals_of_two_seeds_follow_from_all_rows(scores, difference, p, digits):
    table = rows(page("docs/results.md"), "| method |")
    table = {k: row for k, row in table.items() if k not in RUINED and all(map(row.get, scores))}
    y = np.array([[float(row[column]) for column in scores] for row in table.values()])
    rest = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0) + y.mean()
    degrees = len(y) - 1
    error = np.sqrt(np.square(rest).sum() / degrees)  # of a difference of means over two seeds
    means = dict(zip(table, (y - y[0]).mean(axis=1), strict=True))
    assert means.pop("Baseline") == 0
    tested = {k: by_t(mean, error, degrees, over_seeds=True) for k, mean in means.items()}
    corrected = holm([one.p for one in tested.values()])
    for (label, one), value in zip(tested.items(), corrected, strict=True):
        said = [float(number) for number in re.findall(r"[-+][0-9.]+", table[label][difference])]
        assert said == pytest.approx([one.value, *one.interval], abs=0.6 * 10**-digits), label
        assert float(table[label][p].strip("<")) == pytest.approx(value, abs=1e-3), label


@pytest.mark.parametrize("head", ["| method, in float32 |", "| method, to the end |"])
def test_the_intervals_of_the_loss_are_those_of_compare(head):
    """Scores of the page through the package's own analysis, which rounding changes a little."""
    table = rows(page("docs/results.md"), head)
    scores = [
        dict(enumerate(map(float, row["valid nll, each seed"].split()))) for row in table.values()
    ]
    for found, row in zip(by_rows_and_seeds(scores), list(table.values())[1:], strict=True):
        differences = [cell for cell in row.values() if cell.startswith(("+", "-"))]
        said = [float(number) for number in re.findall(r"[-+][0-9.]+", differences[-1])]
        exact = [found.value, *(found.interval or ())]  # one seed has none
        assert said == pytest.approx(exact, abs=0.0015)
