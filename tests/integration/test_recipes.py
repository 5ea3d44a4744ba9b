"""Every recipe trains and resumes, and fairseq-hydra-train resumes a run of its own file."""

import shutil
import subprocess

import pytest
import torch
import yaml

from diverse_mha.common.files import CONFIGS
from diverse_mha.recipes.recipe import compose
from diverse_mha.training.read_log import read_log
from tests.corpora.scripts import environment
from tests.integration.conftest import PLUGIN, ROOT, run, slow_imports
from tests.reliability import miniature

pytestmark = pytest.mark.integration

RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))

# Used by settings(): overrides that make the model of a recipe small.
SIDES = {
    "exact_translation": ("encoder", "decoder"),
    "exact_language_modeling": ("decoder",),
    "sentence_classification": ("encoder",),
}
SIZES = {"embed_dim": 16, "ffn_embed_dim": 32, "layers": 2, "attention_heads": 4}
FOLDERS = dict(zip(SIDES, ("translation", "language_model", "classification"), strict=True))
LANGUAGES = ["task.source_lang=src", "task.target_lang=tgt"]
ADAPTIVE = [f"++model.adaptive_{kind}_cutoff='8,14'" for kind in ("input", "softmax")]
ADAPTIVE += [f"++model.decoder_{side}_dim=16" for side in ("input", "output")]
ON_CPU = ["++common.cpu=true", "++common.fp16=false", "++dataset.num_workers=0"]


def settings(recipe: str, data) -> list[str]:
    """Return overrides that make a recipe train a tiny model on tiny data."""
    composed = compose(recipe, {}, {})
    task = composed["task"]["_name"]
    words = [f"task.data={data / FOLDERS[task]}", *ON_CPU]
    for side in SIDES[task]:
        words += [f"++model.{side}_{size}={value}" for size, value in SIZES.items()]
    if task == "exact_translation":
        words += LANGUAGES
    if composed["lr_scheduler"]["_name"] == "polynomial_decay":
        words.append("++lr_scheduler.total_num_update=4")  # must equal max_update
    if composed["criterion"]["_name"].startswith("adaptive"):
        words += ADAPTIVE
    return words


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand-in")
    miniature.write_all(folder)
    classes = folder / "classification"  # add second sentences, and a group for each sentence
    shutil.copytree(classes / "input0", classes / "input1")
    shutil.copytree(classes / "label", classes / "length")
    return folder


def own_train(recipe, words, folder):
    file = CONFIGS / f"{recipe}.yaml"
    return run("diverse_mha.training.train", "--config", file, *words, cwd=folder)


def hydra_train(file, words, folder):
    where = ["--config-dir", file.parent, "--config-name", file.stem, "hydra.run.dir=."]
    plugin = f"common.user_dir={PLUGIN}"
    return run("fairseq_cli.hydra_train", *where, plugin, *words, cwd=folder)


def updates(run) -> int:
    state = torch.load(run / "checkpoint_last.pt", weights_only=False)
    return state["optimizer_history"][-1]["num_updates"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_in_a_new_folder_and_resumes(recipe, data, tmp_path):
    save_dir = tmp_path / "runs" / recipe
    words = [*settings(recipe, data), f"checkpoint.save_dir={save_dir}"]
    for last, resumed in ((2, False), (4, True)):
        own_train(recipe, [*words, f"optimization.max_update={last}"], tmp_path)
        log = (save_dir / "train.log").read_text()
        assert (updates(save_dir), "Loaded checkpoint" in log) == (last, resumed)


@pytest.mark.parametrize("bfloat16", ["0", "1"])
def test_fairseq_resumes_a_run_from_its_composed_recipe(bfloat16, data, tmp_path, monkeypatch):
    """The recipe in a run's folder says bf16, so the precision of the run is named."""
    monkeypatch.setenv("DIVERSE_MHA_BFLOAT16", bfloat16)
    words = [*settings("multi30k_small", data), "checkpoint.save_dir=run"]
    own_train("multi30k_small", [*words, "optimization.max_update=2"], tmp_path)
    assert updates(tmp_path / "run") == 2
    more = ["optimization.max_update=4", f"common.bf16={'true' if bfloat16 == '1' else 'false'}"]
    hydra_train(tmp_path / "run/recipe.yaml", more, tmp_path)
    assert updates(tmp_path / "run") == 4


def test_training_imports_only_what_text_needs(data, tmp_path, monkeypatch):
    words = [*settings("demo", data), "optimization.max_update=1", "checkpoint.save_dir=run"]
    command = ["diverse_mha.cli", "train", "--config", "demo", *words]
    assert slow_imports(monkeypatch, *command, cwd=tmp_path) == set()
    assert updates(tmp_path / "run") == 1


def test_a_copied_recipe_outside_the_clone_trains_in_two_processes(data, tmp_path):
    """The shell script starts the launcher, which starts two worker processes."""
    copy = tmp_path / "mine.yaml"
    content = yaml.safe_load((CONFIGS / "demo.yaml").read_text())
    content["checkpoint"]["save_dir"] = "new/run"
    copy.write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [
            "bash", ROOT / "scripts/train.sh", "--processes", "2", "--config", "mine.yaml",
            *settings("demo", data), "method=disagreement_em_routing", "optimization.max_update=2",
        ],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert updates(tmp_path / "new/run") == 2
    assert "disagreement_output" in (tmp_path / "new/run/train.log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yaml", "new"]


def test_one_and_two_processes_give_the_same_loss(data, tmp_path):
    """Two processes halve ``update_freq``, so losses of the same batch differ only by rounding."""
    content = yaml.safe_load((CONFIGS / "demo.yaml").read_text())
    content["optimization"]["update_freq"] = [2]
    content["model"]["dropout"] = 0.0
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    words = [*settings("demo", data), "common.log_format=json", "common.log_interval=1"]
    losses = {}
    for count in ("1", "2"):
        done = subprocess.run(
            [
                "bash", ROOT / "scripts/train.sh", "--processes", count, "--config", "mine.yaml",
                *words, f"checkpoint.save_dir={count}", "optimization.max_update=3",
            ],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        (valid,) = read_log(tmp_path / count / "train.log")["validation"][-1:]
        losses[count] = valid["loss"], valid["nll_loss"], valid["num_updates"]
    assert "batch: 2 batches per update, 1 in each of 2 processes" in done.stdout + done.stderr
    assert losses["1"] == pytest.approx(losses["2"], abs=2e-3) and losses["1"][2] == 3
