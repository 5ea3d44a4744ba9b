"""Values that ``scripts/run.sh`` reads from a recipe."""

import json
import subprocess

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS, ROOT
from diverse_mha.training.run_values import main, score_of, values
from tests.corpora.scripts import environment


def test_a_recipe_has_every_step_of_the_papers_experiment():
    found = values(["wmt14_en_de_google", "method=coda", "--processes", "8", "--from", "there"])
    data = "data/wmt14-en-de-google"
    assert found["prepare"] == ["prepare-wmt14-en-de-google.sh", "--out", data, "--from", "there"]
    arguments = ["--processes", "8", "--config", "wmt14_en_de_google", "method=coda"]
    assert found["train"] == arguments
    assert (found["average"], found["average_by"]) == (10, "update")
    run = "runs/wmt14_en_de_google/coda"
    assert (found["run"], found["model"]) == (run, f"{run}/averaged.pt")
    search = ["--beam", "4", "--lenpen", "0.6", "--compound-split"]
    assert found["options"] == ["--target-lang", "de", *search]


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_every_recipe_has_a_preparation_and_a_run_folder(name):
    found = values([name])
    assert (ROOT / "data-prep" / found["prepare"][0]).is_file()
    assert found["run"].startswith("runs/") and found["data"].endswith("/bin")


def test_a_recipe_may_lie_in_a_folder_with_an_equals_sign(tmp_path):
    recipe = tmp_path / "lr=0.1" / "mine.yaml"
    recipe.parent.mkdir()
    recipe.write_text((CONFIGS / "demo.yaml").read_text())
    assert values([str(recipe)], check=True)["train"] == ["--config", str(recipe)]


def test_a_users_corpus_and_plugin_are_passed_to_every_step():
    words = ["task.data=mine/bin", "common.user_dir=my_plugin", "++common.cpu=true"]
    found = values(["multi30k_small", *words, "++generation.max_len_b=9"])
    assert found["prepare"] == [] and found["data"] == "mine/bin"
    assert found["options"][-5:] == ["--max-len-b", "9", "--cpu", "--user-dir", "my_plugin"]
    found = values(["multi30k_small", "--data", "big/m30k"])
    assert found["prepare"][1:] == ["--out", "big/m30k"] and found["data"] == "big/m30k/bin"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method=hsic"], "method=hsic: name the recipe first"),
        (["no_such"], "no_such"),
        (["demo", "task.data=x/bin", "--data", "y"], "--data y: contradicts task.data"),
        (["demo", "task.data=x/bin", "--from", "y"], "--from y: has no effect with task.data"),
        (["demo", "scoring.prepare=null", "--from", "y"], "demo has no scoring.prepare"),
        (["probing", "--data", "y"], "--data y: scoring.prepare has --out"),
        (["demo", "scoring.score=ter"], "scoring.score=ter; choose from tokenised_bleu"),
        (["demo", "--beam", "3"], "--beam: there is no such option; see bash scripts/run.sh"),
        (["demo", "method=hsci"], "method=hsci: no such file; choose from hsic"),
        (["demo", "methd=hsic"], "methd=hsic: there is no group methd; the nearest is method"),
        (["demo", "size=base"], "size=base: demo has no group size; +size=base adds it"),
        (["demo", "model=transformers"], "model=transformers: there is no 'transformers'"),
        (
            ["demo", "modle.dropout=0.2"],
            "modle.dropout=0.2: there is no group modle; the nearest is model",
        ),
        (["demo", "model.dropuot=0.2"], "model has no dropuot; the nearest are dropout"),
        (["demo", "++model.dropuot=0.2"], "model has no dropuot; the nearest are dropout"),
        (["demo", "++generation.beam=0"], "generation.beam=0; give a whole number, 1 or more"),
        (["demo", "++generation.lenpen=0,6"], "generation.lenpen=0,6; give a number from -10 to"),
        (["demo", "~xyz"], "~xyz"),
        (["demo", "optimization.update_freq=4"], "update_freq=4: must be a list; give [4]"),
        (["demo", "++optimization.update_freq=[0]"], "update_freq=[0]: must be a list of whole"),
        (["demo", "scoring.average=2", "++checkpoint.keep_last_epochs=x"], "be a whole number"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(words, message):
    with pytest.raises(UserError) as caught:
        values([*words, "--print"], check=True)
    assert message in str(caught.value)


def test_what_cannot_be_trained_here_is_refused_before_the_corpus_is_prepared(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="common.fp16=true: needs a GPU"):
        values(["wmt14_en_de"], check=True)
    assert values(["wmt14_en_de", "--print"], check=True)["print"] == "yes"


def test_checkpoints_kept_by_an_interpolation_are_refused_where_they_are_averaged():
    words = ["demo", "scoring.average=2", "++checkpoint.keep_interval_updates=${x}"]
    with pytest.raises(UserError, match="keep_interval_updates=.*: give a whole number"):
        values(words)


@pytest.mark.parametrize("recipe", ["multi30k_small", "demo_lm"])
def test_a_corpus_without_a_test_set_is_refused_before_the_training(recipe, tmp_path):
    words = [recipe, f"task.data={tmp_path}", "++common.cpu=true"]
    (tmp_path / "valid.idx").touch()
    with pytest.raises(UserError, match="has no split test, which run.sh scores after"):
        values(words, check=True)
    (tmp_path / "test.idx").touch()
    assert values(words, check=True)["data"] == str(tmp_path)
    values(["logic", *words[1:]], check=True)  # a classifier is scored on what there is


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["multi30k", "scoring.average=3"], "checkpoint.save_interval_updates=N"),
        (["wmt14_en_de", "scoring.average=3"], "checkpoint.keep_interval_updates=3"),
        (["demo", "scoring.average=3", "++scoring.average_by=epoch"], "no_epoch_checkpoints=false"),
    ],
)
def test_averaging_is_refused_if_the_checkpoints_would_not_be_kept(words, cure):
    with pytest.raises(UserError, match="the training would not keep 3 checkpoints; add") as caught:
        values(words)
    assert cure in str(caught.value)
    settings = str(caught.value).partition("; add ")[2].replace("=N", "=100").split()
    assert values([*words, *settings])["average"] == 3


def test_the_score_of_a_run_is_the_measure_that_its_recipe_names(capsys):
    assert score_of("compound_split_bleu", {"compound_split_bleu": 27.3}) == 27.3
    parts = {"accuracy": 50.0, "examples": 1}, {"accuracy": 100.0, "examples": 3}
    subsets = {"valid": parts[0], "test1": parts[0], "test12": parts[1]}
    assert score_of("accuracy", {"subsets": subsets}) == 87.5
    subsets = {"valid": parts[0], "dev": parts[1]}
    assert score_of("accuracy", {"subsets": subsets}) == 87.5, "there is no test set"
    # run.sh evaluates what is written to standard output
    assert main([]) == 2
    usage = capsys.readouterr().err
    assert "usage: bash scripts/run.sh" in usage and "otherwise it is rounded" in usage


@pytest.mark.parametrize(
    ("split", "printed"),
    [
        ("test", "accuracy 50.00: "),
        ("valid", "accuracy 50.00 of valid, as there is no split test*"),
    ],
)
def test_the_accuracy_of_a_corpus_without_a_test_set_names_its_splits(
    split, printed, tmp_path, capsys
):
    file = tmp_path / "accuracy.json"
    file.write_text(json.dumps({"subsets": {split: {"accuracy": 50.0, "examples": 2}}}))
    assert main(["--score", "accuracy", str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"\n{printed}")


def test_a_corpus_without_tokens_is_scored_by_sacrebleu(tmp_path, capsys):
    """``prepare-own.sh`` makes such a corpus unless it is given ``--tokeniser moses``."""
    file = tmp_path / "test.json"
    file.write_text(json.dumps({"sacrebleu": 27.25, "subset": "test"}))
    assert main(["--score", "tokenised_bleu", str(file)]) == 0
    expected = f"\nsacrebleu 27.25, as the corpus was not tokenised: {file}\n"
    assert capsys.readouterr().out == expected
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/test.de-en.de.idx").touch()
    note = {"corpus": "own", "source": "de", "target": "en", "tokenizer_languages": ["de", "en"]}
    note |= dict.fromkeys(("normalise", "aggressive_dashes", "lowercase"), False)
    note |= {"subwords": "sentencepiece", "tokeniser": "none"}
    (tmp_path / "bin/corpus.json").write_text(json.dumps(note))
    words = ["iwslt14_de_en", f"task.data={tmp_path / 'bin'}", "++common.fp16=false"]
    message = "compound_split_bleu: .*bin was not tokenised; give scoring.score=sacrebleu$"
    with pytest.raises(UserError, match=message):
        values(words, check=True)
    assert values([*words, "scoring.score=sacrebleu"], check=True)["score"] == "sacrebleu"


@pytest.mark.integration
def test_a_whole_experiment_runs_and_is_not_repeated(tmp_path):
    """The recipe averages checkpoints. A second call repeats no step; another search is refused."""
    text = (CONFIGS / "demo.yaml").read_text()
    text = text.replace("prepare-demo.sh\n", "prepare-demo.sh --pairs 500 --merges 200\n")
    text = text.replace("average: 0 ", "average: 2 ").replace("updates: 1\n", "updates: 2\n")
    text = text.replace("max_update: 12", "max_update: 4").replace("updates: 6", "updates: 2")
    (tmp_path / "mine.yaml").write_text(text)

    def call(*words):
        command = ["bash", str(ROOT / "scripts/run.sh"), "mine.yaml", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=400
        )

    printed = call("--print").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"], "--print runs nothing"
    first = call()
    assert first.returncode == 0, first.stdout + first.stderr
    shown = [line for line in first.stdout.splitlines() if line.startswith("$ bash ")]
    assert shown == [line for line in printed.splitlines() if line.startswith("$ bash ")]
    assert len(shown) == 4 and "average.sh runs/demo/baseline --last 2 --by update" in shown[2]
    result = tmp_path / "runs/demo/baseline/test.json"
    assert first.stdout.splitlines()[-1].endswith(": runs/demo/baseline/test.json")
    before = result.stat().st_mtime_ns
    second = call()
    assert second.stdout.count("(already done)") == 5 + 2, second.stdout + second.stderr
    assert second.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    other = call("++generation.beam=3")
    assert other.returncode and "test.json: was made by another command" in other.stderr
    assert "delete runs/demo/baseline/test.*," in other.stderr, "the translations, too"
    assert result.stat().st_mtime_ns == before
    result.write_text("{")
    damaged = call()
    assert damaged.returncode and "not readable as JSON" in damaged.stderr
    assert "; delete test.* there and run again" in damaged.stderr
    for path in result.parent.glob("test.*"):
        path.unlink()
    assert call().stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
