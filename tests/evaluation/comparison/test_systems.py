"""``diverse-mha compare`` with folders of runs."""

import errno
import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, CHRF

from diverse_mha import cli
from diverse_mha.common.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Folder of a corpus with its reference, and of evaluated runs of three methods."""
    generator = random.Random(1)
    reference = [" ".join(f"w{generator.randrange(40)}" for _ in range(9)) for _ in range(60)]
    (tmp_path / "data/raw").mkdir(parents=True)
    (tmp_path / "data/raw/test.en").write_text("\n".join(reference) + "\n")
    for method, share in (("base", 0.30), ("good", 0.12), ("same", 0.30)):
        for seed in (1, 2, 3):
            lines = [
                " ".join(w if generator.random() > share else "x" for w in line.split())
                for line in reference
            ]
            run = tmp_path / f"runs/{method}.seed{seed}.ab"
            run.mkdir(parents=True)
            (run / "result.json").write_text(json.dumps({"seed": seed, "scores": {}}))
            (run / "test.hyp.detok").write_text("\n".join(lines) + "\n")
            metric = BLEU()
            score = metric.corpus_score(lines, [reference]).score
            result = {
                "sacrebleu": round(score, 4),
                "sacrebleu_signature": str(metric.get_signature()),
                "data": str(tmp_path / "data/bin"),
                "subset": "test",
                "target_lang": "en",
            }
            (run / "test.json").write_text(json.dumps(result))
    return tmp_path


def runs(folder, method, seeds=(1, 2, 3)):
    return [str(folder / f"runs/{method}.seed{seed}.ab") for seed in seeds]


def both(folder):
    return ["--baseline", *runs(folder, "base"), "--system", *runs(folder, "good")]


def compare(folder, *words):
    assert cli.run(["compare", *map(str, words), "--output", str(folder / "out.json")]) == 0
    return json.loads((folder / "out.json").read_text())["systems"]


def test_table_has_means_intervals_and_significance_tests(folder, capsys):
    words = both(folder)
    first, *more = runs(folder, "same")
    words += ["--system", f"no change={first}", *more]
    base, good, same = compare(folder, *words)
    assert [one["name"] for one in (base, good, same)] == ["base", "good", "no change"]
    reference = (folder / "data/raw/test.en").read_text().splitlines()
    for name, metric in (("BLEU", BLEU()), ("chrF", CHRF())):
        texts = [open(f"{run}/test.hyp.detok").read().splitlines() for run in runs(folder, "good")]
        scores = [metric.corpus_score(text, [reference]).score for text in texts]
        assert good["measures"][name]["values"] == pytest.approx(scores)
        found = good["measures"][name]["difference"]
        assert found["value"] == pytest.approx(
            good["measures"][name]["mean"] - base["measures"][name]["mean"]
        )
        assert found["interval"][0] > 0 and found["over_seeds"]
        by_seed = good["measures"][name]["over_seeds"]
        assert by_seed["value"] == pytest.approx(found["value"]) and by_seed["degrees"] == 4
        assert good["measures"][name]["over_seeds_holm"] == pytest.approx(2 * by_seed["p"])
        p, other = found["p"], same["measures"][name]["difference"]["p"]
        assert p < 0.01 < 0.05 < other
        assert good["measures"][name]["holm"] == pytest.approx(2 * p)
        assert same["measures"][name]["holm"] == pytest.approx(other)
    out = capsys.readouterr().out
    assert "over sentences, by 10,000 resamples" in out and "By seed (BLEU, chrF): " in out
    assert "†" not in out and "p of chrF by seed, Holm" in out
    for ending in ("md", "csv", "tex"):
        assert "no change" in (folder / f"out.{ending}").read_text()


def test_systems_are_scored_with_the_reference_of_their_evaluation(folder):
    given = (folder / "data/raw/test.en").rename(folder / "s.en")
    for file in folder.glob("runs/*/test.json"):
        more = {"raw_reference": str(given)}
        file.write_text(json.dumps(json.loads(file.read_text()) | more))
    assert compare(folder, *both(folder))[1]["measures"]["BLEU"]["difference"]["value"] > 0
    given.unlink()
    with pytest.raises(UserError, match="test.json: its reference .*s.en is gone; put it back"):
        compare(folder, *both(folder))


@pytest.mark.parametrize("recorded", [{"data": "data/bin"}, {"raw_reference": "data/raw/test.en"}])
def test_relative_paths_of_a_result_are_found_from_any_folder(
    folder, tmp_path_factory, monkeypatch, recorded
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(folder)
    before = compare(folder, *both(folder))
    for method in ("base", "good"):
        change(folder, method, **recorded)
    assert compare(folder, *both(folder)) == before
    monkeypatch.chdir(elsewhere)
    assert compare(folder, *both(folder)) == before
    (folder / "runs").rename(elsewhere / "runs")
    with pytest.raises(UserError, match="reference data/raw/test.en is not here; run compare in"):
        compare(folder, *both(elsewhere))


def test_a_system_with_one_seed_is_marked_in_the_table(folder, capsys):
    arguments = ["--baseline", *runs(folder, "base"), "--system", *runs(folder, "good", (2,))]
    good = compare(folder, *arguments)[1]["measures"]["BLEU"]
    assert not good["difference"]["over_seeds"] and good["difference"]["degrees"] is None
    assert good["over_seeds"]["interval"] is None and good["sd"] is None
    out = capsys.readouterr().out
    assert "]†" in out and "these models" in out and "by seed" not in out


def test_seeds_are_resampled_independently(folder):
    """If seeds shared draws, the difference of a method and its copy would have no error."""
    for seed in (1, 2, 3):
        shutil.copytree(folder / f"runs/base.seed{seed}.ab", folder / f"runs/copy.seed{seed}.ab")
    arguments = ["--baseline", *runs(folder, "base"), "--system", *runs(folder, "copy")]
    # The copy is accepted because these results, unlike real ones, do not name their checkpoint.
    found = compare(folder, *arguments)[1]["measures"]["BLEU"]["difference"]
    assert found["value"] == 0 and found["standard_error"] > 0


def test_lowercased_evaluations_are_recomputed_without_case(folder):
    metric = BLEU(lowercase=True)
    reference = (folder / "data/raw/test.en").read_text().splitlines()
    for run in map(Path, runs(folder, "base") + runs(folder, "good")):
        text = (run / "test.hyp.detok").read_text().upper()
        (run / "test.hyp.detok").write_text(text)
        result = json.loads((run / "test.json").read_text())
        result["sacrebleu"] = round(metric.corpus_score(text.splitlines(), [reference]).score, 4)
        result["sacrebleu_signature"] = str(metric.get_signature())
        (run / "test.json").write_text(json.dumps(result))
    good = compare(folder, *both(folder))[1]["measures"]
    assert good["BLEU"]["values"][2] == pytest.approx(result["sacrebleu"], abs=1e-3)


def test_newest_result_of_the_best_checkpoint_is_used(folder, capsys):
    for method in ("base", "good"):
        run, other = (Path(runs(folder, method, (seed,))[0]) for seed in (1, 3))
        for ending in ("json", "hyp.detok"):
            (run / f"test.{ending}").rename(run / f"checkpoint_best.test.{ending}")
            for name in ("checkpoint_avg.test", "checkpoint_best.z"):
                shutil.copy(other / f"test.{ending}", run / f"{name}.{ending}")
        os.utime(run / "checkpoint_best.z.json", (1, 1))
    base, good = (Path(runs(folder, name, (1,))[0]) for name in ("base", "good"))
    best = compare(folder, "--baseline", base, "--system", good)
    message = capsys.readouterr().err
    assert "using checkpoint_best.test.json of checkpoint_avg.test.json, checkpoint_b" in message
    files = [f"--{side}={x}/checkpoint_best.test.json" for side, x in
             (("baseline", base), ("system", good))]  # fmt: skip
    assert compare(folder, *files)[1]["measures"] == best[1]["measures"]


def test_result_of_an_ensemble_is_not_taken_for_that_of_its_first_run(folder, capsys):
    base, good = (Path(runs(folder, name, (1,))[0]) for name in ("base", "good"))
    before = compare(folder, "--baseline", base, "--system", good)
    ensemble = base / "a-checkpoint_best+b-checkpoint_best.test.json"
    for ending in ("json", "hyp.detok"):
        shutil.copy(good / f"test.{ending}", ensemble.with_suffix(f".{ending}"))
    result = json.loads(ensemble.read_text()) | {"checkpoint": "runs/a/best.pt:runs/b/best.pt"}
    ensemble.write_text(json.dumps(result))
    assert compare(folder, "--baseline", base, "--system", good) == before
    assert "note: " not in capsys.readouterr().err
    # The ensemble can be compared by its file.
    named = compare(folder, "--baseline", f"base={ensemble}", "--system", good)
    assert named[0]["runs"][0]["BLEU"] == before[1]["runs"][0]["BLEU"]
    (base / "test.json").unlink()
    refused(folder, "--baseline BASE --system GOOD", "of ensembles alone; .*, or name a-checkpoi")


def test_a_colon_in_the_folder_of_a_classifier_is_not_taken_for_an_ensemble(folder):
    words = []
    for name, option in (("base", "--baseline"), ("mine", "--system")):
        run = folder / f"runs/2024-05-01_12:30/{name}"
        run.mkdir(parents=True)
        score = {"examples": 4, "accuracy": 50.0, "majority": 50.0}
        result = {"checkpoint": f"{run}/checkpoint_best.pt", "subsets": {"test": score}}
        (run / "accuracy.json").write_text(json.dumps(result))
        words += [option, run]
    assert compare(folder, *words)[0]["runs"][0]["accuracy"] == 50.0


def refused(folder, words, message):
    names = {"BASE": runs(folder, "base")[0], "GOOD": runs(folder, "good")[0]}
    words = re.sub("BASE|GOOD", lambda name: names[name[0]], words).split()
    with pytest.raises(UserError, match=message) as error:
        cli.run(["compare", *words])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--system GOOD", "--baseline is missing"),
        ("--baseline BASE --system BASE", "name is taken"),
        ("--baseline gone/x --system gone/y", "^gone/x: no such run; name a folder"),
        ("--baseline BASE --system x=GOOD gone", "^gone: no such run"),
        ("--baseline BASE --system x=BASE", "is in base and in x; name it once"),
        ("--baseline BASE BASE --system GOOD", "is twice in base; name it once"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(folder, words, message):
    refused(folder, words, message)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("data/raw/test.en", "other words here\n" * 60, "but with .*test.en it is 0.00"),
        ("data/raw/test.en", None, "test.en is gone; put it back"),
        ("runs/good.seed1.ab/test.json", None, "has no result of an evaluation"),
        (
            "runs/good.seed1.ab/test.json",
            '{"perplexity": 3}',
            "has perplexity, but .* has BLEU/chrF",
        ),
        (
            "runs/good.seed1.ab/test.json",
            '{"sacrebleu": 3}',
            "good.seed1.ab/test.json: not a result of evaluate .*sacrebleu_signature",
        ),
        ("runs/good.seed1.ab/result.json", '{"seed": ', "result.json: not readable as JSON"),
    ],
)
def test_invalid_files_are_reported_in_one_line(folder, file, content, message):
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_text(content)
    refused(folder, "--baseline BASE --system GOOD", message)


def change(folder, method, **settings):
    """Change settings in the results of a method."""
    for run in map(Path, runs(folder, method)):
        result = json.loads((run / "test.json").read_text()) | settings
        (run / "test.json").write_text(json.dumps(result))


@pytest.mark.parametrize(
    ("name", "base", "good"),
    [("beam", 5, 1), ("lenpen", 1.0, 3.0), ("generate_options", [], ["--sampling"])],
)
def test_different_search_options_need_despite_search(folder, capsys, name, base, good):
    change(folder, "base", **{name: base})
    change(folder, "good", **{name: good})
    message = f"differs from {runs(folder, 'base')[0]} in {name} ({good}, not {base})"
    with pytest.raises(UserError, match=re.escape(f"{message}; evaluate with one search, or add")):
        compare(folder, *both(folder))
    compare(folder, *both(folder), "--despite-search")
    assert (
        f"Search options differ: {runs(folder, 'good')[0]}: {message}." in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_lang": "en", "moses_language": "de"}, r"in moses_language \(de, not en\);"),
        ({"source_sha256": "b" * 64}, "has another source text than .*base.seed1.ab; compare"),
    ],
)
def test_results_with_another_scorer_or_source_text_are_refused(folder, settings, message):
    change(folder, "base", source_sha256="a" * 64, moses_language="en")
    change(folder, "good", **settings)
    with pytest.raises(UserError, match=message):
        compare(folder, *both(folder), "--despite-search")


def test_a_comparison_stopped_by_a_full_disk_leaves_no_tables_alone(folder, monkeypatch):
    """Tables without their JSON file would not be replaced by the same command."""
    write = Path.write_bytes

    def full(path, content):
        if "out.json" in path.name:
            raise OSError(errno.ENOSPC, "full")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="full"):
        compare(folder, *both(folder))
    assert not list(folder.glob("*out.*"))
    monkeypatch.undo()
    assert compare(folder, *both(folder))
    assert len(list(folder.glob("out.*"))) == 4


def test_copied_run_is_refused(folder):
    change(folder, "base", checkpoint="runs/base/checkpoint_best.pt", seconds=1.5)
    copy = folder / "runs/mine.seed1.ab"
    shutil.copytree(runs(folder, "base")[0], copy)
    with pytest.raises(UserError, match="mine.seed1.ab: is a copy of .*base.seed1.ab; name the"):
        compare(folder, "--baseline", runs(folder, "base")[0], "--system", copy)


def test_a_copied_run_that_was_evaluated_again_is_named(folder, capsys):
    change(folder, "base", checkpoint="runs/base/checkpoint_best.pt", seconds=1.5)
    first, copy = Path(runs(folder, "base")[0]), folder / "runs/base.seed9.ab"
    shutil.copytree(first, copy)
    result = json.loads((copy / "test.json").read_text()) | {"checkpoint": f"{copy}/best.pt"}
    (copy / "test.json").write_text(json.dumps(result))
    compare(folder, "--baseline", first, copy, "--system", *runs(folder, "good"))
    out = capsys.readouterr().out
    assert f"Equal results: {first}, {copy}." in out and "]†" in out
    assert "by seed" not in out, "the copy has a seed in its name, but none of its own"
