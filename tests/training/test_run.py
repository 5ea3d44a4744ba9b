"""``diverse-mha run``: its steps, what it refuses, and what it does again."""

import json
import shutil
import subprocess
import weakref
from pathlib import Path

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS, ROOT
from diverse_mha.common.status import Status
from diverse_mha.training import experiment as steps_of
from diverse_mha.training import run
from diverse_mha.training.run import main, parse
from diverse_mha.training.score import print_score, score_of
from diverse_mha.training.steps import Record, Step
from tests.corpora.scripts import environment


def experiment(*words):
    return parse(words)[0]


def printed(capsys, *words) -> list[str]:
    """Return the commands that ``--print`` shows."""
    assert main([*words, "--print"]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if line]


def test_a_recipe_has_every_step_of_the_papers_experiment(capsys, monkeypatch):
    monkeypatch.delenv("DIVERSE_MHA_SCRIPT", raising=False)
    monkeypatch.chdir(ROOT)
    words = ["wmt14_en_de_google", "method=coda", "--processes", "8", "--from", "there"]
    data, folder = "data/wmt14-en-de-google", "runs/wmt14_en_de_google/coda"
    search = "--target-lang de --beam 4 --lenpen 0.6 --compound-split"
    assert printed(capsys, *words) == [
        f"$ bash data-prep/prepare-wmt14-en-de-google.sh --out {data} --from there",
        "$ diverse-mha train --processes 8 --config wmt14_en_de_google method=coda",
        f"$ diverse-mha average {folder} --last 10 --by update --output {folder}/averaged.pt",
        f"$ diverse-mha evaluate {folder}/averaged.pt {data}/bin {search} "
        f"--output {folder}/test.json",
    ]
    monkeypatch.setenv("DIVERSE_MHA_SCRIPT", "run.sh")
    assert printed(capsys, *words)[1].startswith("$ bash scripts/train.sh --processes 8")


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_every_recipe_has_a_preparation_and_a_run_folder(name):
    found = experiment(name)
    assert (ROOT / "data-prep" / found.pipeline.prepare[0]).is_file()
    assert str(found.run) == f"runs/{name}/baseline" and found.data.endswith("/bin")


def test_a_recipe_may_lie_in_a_folder_with_an_equals_sign(tmp_path):
    recipe = tmp_path / "lr=0.1" / "mine.yaml"
    recipe.parent.mkdir()
    recipe.write_text((CONFIGS / "demo.yaml").read_text())
    assert experiment(str(recipe)).training().words[-1] == str(recipe)


def test_a_users_corpus_and_plugin_are_passed_to_every_step():
    words = ["task.data=mine/bin", "common.user_dir=my_plugin", "common.cpu=true"]
    found = experiment("multi30k_small", *words, "generation.max_len_b=9")
    assert found.preparation() is None and found.data == "mine/bin"
    assert found.options()[-5:] == ["--max-len-b", "9", "--cpu", "--user-dir", "my_plugin"]
    found = experiment("multi30k_small", "--data", "big/m30k")
    assert [*found.preparation().words][2:] == ["--out", "big/m30k"]
    assert found.data == "big/m30k/bin"


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
        (["demo", "--beam", "3"], "--beam: there is no such option; see diverse-mha run"),
        (["demo", "methd=hsic"], "methd._name=hsic: there is no group methd; the nearest is meth"),
        (["demo", "generation.lenpen=0,6"], "generation.lenpen=0,6"),
        (["demo", "~xyz"], "~xyz"),
        (["demo", "scoring.average=2", "checkpoint.keep_interval_updates=x"], "Value 'x' of type"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(words, message, monkeypatch):
    monkeypatch.delenv("DIVERSE_MHA_SCRIPT", raising=False)
    with pytest.raises(UserError) as caught:
        main([*words, "--print"])
    assert message in str(caught.value)


def test_what_cannot_be_trained_here_is_refused_before_the_corpus_is_prepared(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(steps_of, "call", lambda words: pytest.fail("a step was carried out"))
    with pytest.raises(UserError, match="common.fp16=true: needs a GPU"):
        main(["wmt14_en_de"])
    with pytest.raises(UserError, match="method=em_routing_1_2: does not fit ptb"):
        main(["ptb", "method=em_routing_1_2"])
    assert main(["wmt14_en_de", "--print"]) == 0
    assert not [*tmp_path.iterdir()]


def test_a_training_that_is_refused_leaves_no_new_folder(monkeypatch, tmp_path):
    """Its data and its folder are recorded before it begins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("dict.lm.txt", "valid.idx", "test.idx"):
        (tmp_path / "bin" / name).touch()

    def refuse():
        assert (tmp_path / "runs/demo/hsic/steps.json").is_file()
        raise UserError("refused")

    monkeypatch.setattr(run.train, "start", lambda job: refuse)
    with pytest.raises(UserError, match="^refused$"):
        main(["demo", "method=hsic", "task.data=bin"])
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_training_that_another_process_refuses_leaves_no_new_folder(corpus, monkeypatch):
    monkeypatch.setattr(run.train, "start", lambda job: lambda: 2)
    assert main(["demo", "task.data=data/bin"]) == 2
    assert not (corpus / "runs").exists()


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Make the current folder one with a corpus in data/bin."""
    monkeypatch.chdir(tmp_path)
    splits = "bin/train.idx", "bin/valid.idx", "bin/test.idx"
    for name in ("bin/dict.qo.txt", *splits, "raw/test.qo"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    return tmp_path


def trained(words, folder: str, updates: int) -> None:
    """Make the files of a run that has been trained."""
    found, place = experiment(*words), Path(folder)
    place.mkdir(parents=True)
    (place / "recipe.yaml").write_text(found.recipe.to_yaml())
    (place / "checkpoint_best.pt").write_text("weights")
    Status(updates, 5, finished=True).write(place)
    record = Record(place)
    record.add("train", record.of(found.training()))


MINE = ["demo", "task.data=data/bin", "checkpoint.save_dir=run", "optimization.max_update=12"]


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ([], "done"),
        (["common.log_interval=3", "generation.beam=2", "checkpoint.keep_last_epochs=3"], "done"),
        (["optimization.max_update=20"], "trains"),
        (["optimization.max_update=0"], "trains"),
        (["optimization.max_epoch=100"], "done"),
        (["optimization.max_update=6"], "max_update=12, which is now 6"),
        (["optimization.max_epoch=3"], "max_epoch=null, which is now 3"),
        (["lr_scheduler.warmup_updates=2"], "warmup_updates=4, which is now 2"),
        (["checkpoint.patience=3"], "checkpoint.patience=null, which is now 3"),
        (["optimization.max_epoch=100", "model.dropout=0.7"], "model.dropout="),
    ],
)
def test_a_finished_training_goes_on_for_longer_and_is_that_of_its_recipe(words, outcome, corpus):
    """An old score must not be printed for a recipe that has changed."""
    trained(MINE, "run", updates=12)
    found, record = experiment(*MINE, *words), Record(Path("run"))
    if outcome in ("done", "trains"):
        assert run._is_finished(found, found.training(), record) == (outcome == "done")
    else:
        with pytest.raises(UserError, match="run: was trained with .*; choose another") as caught:
            run._is_finished(found, found.training(), record)
        assert outcome in str(caught.value)


def test_a_corpus_that_was_deleted_is_prepared_before_it_is_compared(corpus, monkeypatch, capsys):
    """The run must not be given up for a corpus that has not changed."""
    words = ["demo", "--data", "data", "checkpoint.save_dir=run"]
    trained(words, "run", updates=12)
    shutil.move(corpus / "data", corpus / "before")

    def call(command):
        if command[0] == "bash":
            shutil.copytree(corpus / "before", corpus / "data")
            return 0
        return 7  # the evaluation is another test's

    monkeypatch.setattr(steps_of, "call", call)
    assert main(words) == 7
    assert "(already done)" in capsys.readouterr().out
    shutil.rmtree("data")
    (corpus / "before/bin/train.idx").write_text("other")
    with pytest.raises(UserError, match="was prepared anew since run .*train.idx differs"):
        main(words)
    own = [*words[:1], "task.data=data/bin", *words[3:]]
    shutil.rmtree("data")
    with pytest.raises(UserError, match="data/bin: no such data folder"):
        main(own)


def test_a_step_knows_the_files_that_it_reads_and_no_others(corpus):
    found = experiment(*MINE)
    for name in ("bin/stamp", "bin/corpus.json", "raw/train.qo", "raw/notes", "tok/test.qo"):
        (corpus / "data" / name).parent.mkdir(exist_ok=True)
        (corpus / "data" / name).touch()
    read = {"dict.qo.txt", "train.idx", "valid.idx"}
    assert found.training().inputs().keys() == read
    scored = {"model", "dict.qo.txt", "valid.idx", "test.idx", "corpus.json"}
    (test,) = found.evaluation()
    assert test.inputs().keys() == scored | {"raw/test.qo", "tok/test.qo"}
    found = experiment("demo_lm", *MINE[1:])
    assert all(step.inputs().keys() == scored for step in found.evaluation())


def test_the_corpus_folder_of_an_option_is_prepared_again_by_the_runs_own_recipe(tmp_path):
    kept = tmp_path / "recipe.yaml"
    kept.write_text(experiment("demo", "--data", "there").recipe.to_yaml())
    again = experiment(str(kept))
    assert again.data == "there/bin"
    assert [*again.preparation().words][-2:] == ["--out", "there"]


def test_a_training_frees_its_memory_before_the_evaluation(corpus, monkeypatch):
    class Model:
        pass

    alive = []

    def go():
        model = Model()
        model.itself = model
        alive.append(weakref.ref(model))
        return 0

    def call(command):
        assert alive[0]() is None
        return 7

    monkeypatch.setattr(run.train, "start", lambda job: go)
    monkeypatch.setattr(steps_of, "call", call)
    assert main(["demo", "task.data=data/bin"]) == 7


def test_a_training_without_validation_is_scored_by_its_last_checkpoint():
    found = experiment("multi30k_small", "dataset.disable_validation=true")
    assert found.trained == found.model and found.model.name == "checkpoint_last.pt"


@pytest.mark.parametrize("recipe", ["multi30k_small", "demo_lm"])
def test_a_corpus_without_a_test_set_is_refused_before_the_training(recipe, tmp_path):
    words = [f"task.data={tmp_path}", "common.cpu=true"]
    (tmp_path / "valid.idx").touch()
    with pytest.raises(UserError, match="has no split test, which is scored after"):
        experiment(recipe, *words).check_corpus()
    (tmp_path / "test.idx").touch()
    experiment(recipe, *words).check_corpus()
    experiment("logic", *words).check_corpus()  # a classifier is scored on what there is


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["multi30k", "scoring.average=3"], "checkpoint.save_interval_updates=N"),
        (["wmt14_en_de", "scoring.average=3"], "checkpoint.keep_interval_updates=3"),
        (["demo", "scoring.average=3", "scoring.average_by=epoch"], "no_epoch_checkpoints=false"),
    ],
)
def test_averaging_is_refused_if_the_checkpoints_would_not_be_kept(words, cure):
    with pytest.raises(UserError, match="the training would not keep 3 checkpoints; add") as caught:
        experiment(*words).check_average()
    assert cure in str(caught.value)
    settings = str(caught.value).partition("; add ")[2].replace("=N", "=100").split()
    experiment(*words, *settings).check_average()


def test_the_score_of_a_run_is_the_measure_that_its_recipe_names(capsys):
    assert score_of("compound_split_bleu", {"compound_split_bleu": 27.3}) == 27.3
    parts = {"accuracy": 50.0, "examples": 1}, {"accuracy": 100.0, "examples": 3}
    subsets = {"valid": parts[0], "test1": parts[0], "test12": parts[1]}
    assert score_of("accuracy", {"subsets": subsets}) == 87.5
    subsets = {"valid": parts[0], "dev": parts[1]}
    assert score_of("accuracy", {"subsets": subsets}) == 87.5, "there is no test set"
    assert main([]) == 2
    assert "otherwise it is rounded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recipe", "result", "line"),
    [
        ("logic", {"subsets": {"test": {"accuracy": 50.0, "examples": 2}}}, "accuracy 50.00: "),
        (
            "logic",
            {"subsets": {"valid": {"accuracy": 50.0, "examples": 2}}},
            "accuracy 50.00 of valid, as there is no split test*",
        ),
        ("demo", {"sacrebleu": 27.25}, "sacreBLEU 27.25, as the corpus was not tokenised: "),
        (
            "demo",
            {"tokenised_bleu": 1.78, "sacrebleu": 1.91},
            "tokenised_bleu 1.78 (sacreBLEU 1.91): ",
        ),
    ],
)
def test_the_last_line_names_its_score(recipe, result, line, tmp_path, capsys):
    file = tmp_path / "test.json"
    file.write_text(json.dumps(result))
    print_score(experiment(recipe).pipeline.score, file)
    assert capsys.readouterr().out.startswith(f"\n{line}")


@pytest.mark.parametrize(
    "text",
    ["{}", '{"subsets": {}}', "[]", "null", '{"tokenised_bleu": "x"}', '{"sacrebleu": NaN}', "{"],
)
def test_a_result_edited_by_hand_is_refused_in_one_line(text, tmp_path):
    file = tmp_path / "test.json"
    file.write_text(text)
    for name in ("tokenised_bleu", "accuracy"):
        with pytest.raises(UserError, match=r"; delete test\.\* there and run again"):
            print_score(name, file)


def test_a_record_knows_files_by_their_contents(tmp_path):
    """A moved folder is the same; a file of the same size, name and an older time is not."""
    folder = tmp_path / "run"
    folder.mkdir()
    model, result = folder / "model.pt", folder / "test.json"
    model.write_text("one")
    result.write_text("{}")

    def step(folder):
        inputs = {"model": folder / "model.pt"}
        return Step("evaluate", ["x"], ["--beam", "5"], lambda: inputs, [folder / "test.json"])

    record = Record(folder)
    record.add("evaluate", record.of(step(folder)))
    folder = shutil.move(folder, tmp_path / "moved")
    folder = tmp_path / "moved"
    again = Record(folder)
    assert again.steps["evaluate"] == again.of(step(folder))
    times = (folder / "model.pt").stat()
    (folder / "model.pt").write_text("two")
    import os

    os.utime(folder / "model.pt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert Record(folder).of(step(folder)) != again.steps["evaluate"]


def test_a_damaged_record_is_refused_in_one_line(tmp_path):
    (tmp_path / "steps.json").write_text("[]")
    with pytest.raises(UserError, match="steps.json: is not a record of this command; delete it"):
        Record(tmp_path)


@pytest.mark.long
@pytest.mark.integration
def test_a_whole_experiment_runs_and_is_not_repeated(tmp_path):
    """The recipe averages checkpoints. What has changed since is done again, said or refused."""
    text = (CONFIGS / "demo.yaml").read_text()
    text = text.replace("prepare-demo.sh\n", "prepare-demo.sh --pairs 500 --merges 200\n")
    text = text.replace("average: 0 ", "average: 2 ").replace("updates: 1\n", "updates: 2\n")
    text = text.replace("max_update: 12", "max_update: 4").replace("updates: 6", "updates: 2")
    (tmp_path / "mine.yaml").write_text(text)

    def call(*words, cwd=tmp_path):
        command = ["bash", str(ROOT / "scripts/run.sh"), *words]
        return subprocess.run(
            command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=400
        )

    mine = ["mine.yaml", "checkpoint.save_dir=runs/é"]
    only = call(*mine, "--print").stdout
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"], "--print runs nothing"
    first = call(*mine)
    assert first.returncode == 0, first.stdout + first.stderr
    shown = [line for line in first.stdout.splitlines() if line.startswith("$ bash ")]
    assert shown == [line for line in only.splitlines() if line]
    assert len(shown) == 4 and "average.sh 'runs/é' --last 2 --by update" in shown[2]
    folder = tmp_path / "runs/é"
    result = folder / "test.json"
    score = first.stdout.splitlines()[-1]
    assert score.startswith("tokenised_bleu ") and score.endswith("runs/é/test.json")
    before = result.stat().st_mtime_ns
    second = call(*mine)
    assert second.stdout.count("(already done)") == 5 + 3, second.stdout + second.stderr
    assert second.stdout.splitlines()[-1] == score and result.stat().st_mtime_ns == before
    # A run's folder may be moved, and named by its absolute path or by its recorded recipe.
    folder = folder.rename(tmp_path / "moved")
    moved = call("mine.yaml", f"checkpoint.save_dir={folder}")
    assert moved.stdout.count("(already done)") == 5 + 3, moved.stdout + moved.stderr
    kept = call("moved/recipe.yaml", f"checkpoint.save_dir={folder}")
    assert kept.stdout.count("(already done)") == 5 + 3, kept.stdout + kept.stderr
    mine = ["mine.yaml", f"checkpoint.save_dir={folder}"]
    # Another search is done again; other settings of the training are refused.
    other = call(*mine, "generation.beam=3")
    assert "beam 3" in other.stdout and other.returncode == 0, other.stdout + other.stderr
    changed = call(*mine, "model.dropout=0.4")
    assert changed.returncode == 2 and "was trained with model.dropout=" in changed.stderr
    # Another reference is prepared again, or scored again where the corpus is the user's own.
    assert call(*mine).returncode == 0
    reference = tmp_path / "data/demo/raw/test.qo"
    lines = reference.read_text().splitlines(keepends=True)
    reference.write_text("".join(reversed(lines)))
    own = call(*mine, "task.data=data/demo/bin")
    assert "sentences, beam" in own.stdout, own.stdout + own.stderr
    again = call(*mine)
    assert "raw/test.qo is not as it was prepared" in again.stdout + again.stderr
    assert "sentences, beam" in again.stdout
    assert again.stdout.splitlines()[-1].partition(":")[0] == score.partition(":")[0]
    last = folder / "checkpoint_last.pt"
    shutil.copy(folder / "averaged.pt", last)
    swapped = call(*mine)
    assert swapped.returncode == 2 and "is not the file that this run's training" in swapped.stderr
