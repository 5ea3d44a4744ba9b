"""Every recipe trains with diverse-mha train, and fairseq-hydra-train resumes the run."""

import shutil
import subprocess

import pytest
import torch
import yaml

from diverse_mha.common.files import CONFIGS
from diverse_mha.common.status import read_status
from diverse_mha.training.compose import compose
from diverse_mha.training.log import read_log
from tests.corpora.scripts import environment
from tests.integration.conftest import PLUGIN, ROOT, run
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


def hydra_train(recipe, words, folder, *options):
    where = ["--config-dir", CONFIGS, "--config-name", recipe]
    plugin = f"common.user_dir={PLUGIN}"
    return run("fairseq_cli.hydra_train", *options, *where, plugin, *words, cwd=folder)


def updates(run) -> int:
    state = torch.load(run / "checkpoint_last.pt", weights_only=False)
    return state["optimizer_history"][-1]["num_updates"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_in_a_new_folder_and_resumes(recipe, data, tmp_path):
    save_dir = tmp_path / "runs" / recipe
    words = [*settings(recipe, data), f"checkpoint.save_dir={save_dir}"]
    for last, start, resumed in ((2, own_train, False), (4, hydra_train, True)):
        start(recipe, [*words, f"optimization.max_update={last}"], tmp_path)
        log = (save_dir / "train.log").read_text()
        assert (updates(save_dir), "Loaded checkpoint" in log) == (last, resumed)


def test_recipes_are_found_in_the_config_folder():
    assert len(RECIPES) >= 17


def test_each_training_of_a_sweep_has_its_own_folder(data, tmp_path):
    """Every training writes its best checkpoint, even if an earlier one had a better score."""
    words = [*settings("demo", data), "optimization.max_update=1"]
    words += ["method=baseline,coda", "optimization.lr=[0.01],[0.0]"]
    words += ["checkpoint.save_dir=runs/${hydra:runtime.choices.method}-${hydra:job.num}"]
    hydra_train("demo", words, tmp_path, "-m")
    names = {path.name for path in (tmp_path / "runs").iterdir()}
    assert names == {"baseline-0", "baseline-1", "coda-2", "coda-3"}
    for name in names:
        files = {path.name for path in (tmp_path / "runs" / name).iterdir()}
        expected = {"train.log", "status.json", "checkpoint_best.pt", "checkpoint_last.pt"}
        assert files == expected and read_status(tmp_path / "runs" / name).finished, name


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
