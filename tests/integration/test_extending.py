"""The plugins of docs/extending.md, as they stand there: files of a user's own, and commands."""

import os
import re
import shlex
import subprocess
import sys

import pytest
import torch

from tests.corpora import scripts
from tests.docs.blocks import commands
from tests.integration.conftest import ROOT, run

PAGE = "docs/extending.md"
FILES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```", (ROOT / PAGE).read_text(), re.M | re.S))
COMMANDS = {re.search(r"--user-dir (\w+)", c.text)[1]: c.text for c in commands(PAGE)}
MODULES = {"fairseq-train": "fairseq_cli.train", "diverse-mha": "diverse_mha.cli"}
SMALL = "--cpu --num-workers 0 --log-format simple --log-interval 1 --seed 1"


def test_each_file_is_a_short_plugin_with_one_command():
    assert FILES.keys() == {f"{name}/__init__.py" for name in COMMANDS}
    assert len(FILES) == 3 and all(len(text.splitlines()) <= 60 for text in FILES.values())


def follow(name, folder, *more, change=lambda command: command):
    """Write the plugin into a folder and run its command there."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(FILES[f"{name}/__init__.py"])
    program, *words = shlex.split(change(COMMANDS[name]).replace("\\\n", ""))
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, "-m", MODULES[program], *words, *map(str, more)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def train(name, folder, data, **options):
    def on_our_data(command):
        return options.get("change", str)(command.replace("DATA", str(data)))

    return follow(name, folder, *SMALL.split(), change=on_our_data)


@pytest.mark.integration
def test_a_term_of_ones_own_is_trained_on_and_logged(data, tmp_path):
    done = train("balance", tmp_path, data)
    assert done.returncode == 0, done.stderr[-3000:]
    values = re.findall(r"(?<!valid_)balance[=| ]+([\d.]+)", done.stdout + done.stderr)
    assert values and all(float(value) > 0 for value in values)
    kept = torch.load(tmp_path / "runs/balance/checkpoint_last.pt", weights_only=False)
    assert kept["cfg"]["criterion"]["balance_weight"] == "0.5"
    # Gone on without the plugin, the term would be left out in silence.
    words = shlex.split(COMMANDS["balance"].replace("\\\n", "").replace("DATA", str(data)))[1:]
    words[words.index("balance")], term = ROOT / "diverse_mha", words.index("--balance-weight")
    del words[term : term + 4]  # --balance-on, too
    done = run("fairseq_cli.train", *words, *SMALL.split(), cwd=tmp_path, check=False)
    said = "trained with --balance-weight 0.5, which nothing registers now; give"
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


RECIPE = """
common: {{user_dir: {user_dir}, cpu: true, log_format: simple, log_interval: 1}}
checkpoint: {{no_save: true}}
task: {{_name: exact_translation, data: {data}}}
dataset: {{max_tokens: 500, num_workers: 0, disable_validation: true}}
criterion:
  {{_name: label_smoothed_cross_entropy_with_diversity, balance_weight: 0.5,
   orthogonality_weight: 1.0, orthogonality_cosine_projections: k}}
optimization: {{max_update: 2, lr: [0.003]}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
model: {{_name: transformer_disagree_small}}
"""


@pytest.mark.integration
def test_a_recipe_has_a_term_of_ones_own(data, tmp_path):
    plugin = tmp_path / "balance"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(FILES["balance/__init__.py"])
    recipe = tmp_path / "mine.yaml"

    def train_with(user_dir):
        recipe.write_text(RECIPE.format(user_dir=user_dir, data=data))
        return run("diverse_mha.training.launch", "--config", recipe, cwd=tmp_path, check=False)

    done = train_with(plugin)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and re.search(r"balance=[\d.]+", said), said[-3000:]
    done = train_with(tmp_path / "gone")
    missing = f"error: common.user_dir {tmp_path}/gone: no package"
    assert done.returncode == 2 and missing in done.stderr


@pytest.mark.integration
def test_a_term_of_ones_own_refuses_as_ours_do(data, tmp_path):
    weight = "--balance-weight 0.5 --balance-on encoder,cross"
    change = {"change": lambda command: command.replace(weight, "--balance-on encoder")}
    done = train("balance", tmp_path, data, **change)
    expected = "error: --balance-on encoder has no effect with --balance-weight 0; give a weight"
    assert done.returncode == 1 and expected in done.stderr and "Traceback" not in done.stderr


@pytest.mark.integration
def test_an_aggregation_of_ones_own_is_built_saved_and_loaded(data, tmp_path):
    done = train("scaled", tmp_path, data)
    assert done.returncode == 0, done.stderr[-3000:]
    kept = torch.load(tmp_path / "runs/scaled/checkpoint_last.pt", weights_only=False)
    scales = [p for name, p in kept["model"].items() if name.endswith("out_proj.scales")]
    assert len(scales) == 2 and all((p - 0.5).abs().max() < 0.1 for p in scales)
    generate = ["fairseq_cli.generate", data, "--user-dir", "scaled", "--cpu", "--max-len-b", 5]
    path = ["--path", "runs/scaled/checkpoint_last.pt"]
    done = subprocess.run(
        [sys.executable, "-m", *map(str, generate), *path],
        cwd=tmp_path,
        env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and "Generate test" in done.stdout, done.stderr[-3000:]


@pytest.mark.integration
def test_options_of_ones_own_are_shown(tmp_path):
    (tmp_path / "scaled").mkdir()
    (tmp_path / "scaled/__init__.py").write_text(FILES["scaled/__init__.py"])
    shown = ["diverse_mha.cli", "options", "transformer_lm_disagree", "--user-dir"]
    text = " ".join(run(*shown, tmp_path / "scaled").stdout.split())
    assert "--scaled-start (default: 1.0)" in text and "scaled (learnt weights" in text
    done = run(*shown, tmp_path / "gone", check=False)
    assert done.returncode == 2 and "gone: no package" in done.stderr and not done.stdout


@pytest.mark.integration
def test_a_method_of_ones_own_translates_text_and_is_not_exported(tmp_path):
    scripts.run("demo", "--out", "demo", "--pairs", 300, "--merges", 60, cwd=tmp_path)
    done = train("scaled", tmp_path, tmp_path / "demo/bin")
    assert done.returncode == 0, done.stderr[-3000:]
    model, text = tmp_path / "runs/scaled/checkpoint_last.pt", tmp_path / "text"
    text.write_text("low\nlow low\n")
    search, own = ["--cpu", "--max-len-b", 5], ["--user-dir", tmp_path / "scaled"]
    words = ["diverse_mha.cli", "translate", model, tmp_path / "demo/bin", *search]
    done = run(*words, input=text.read_text(), check=False)
    assert done.returncode == 2 and "one of your own needs --user-dir" in done.stderr
    found = run(*words, *own, input=text.read_text()).stdout
    assert len(found.splitlines()) == 2
    words = ["diverse_mha.evaluation.translation", model, tmp_path / "demo/bin", *search, *own]
    run(*words, "--source", text, "--reference", text, "--output", tmp_path / "scores.json")
    assert (tmp_path / "scores.hyp.detok").read_text() == found
    words = ["diverse_mha.cli", "export", model, tmp_path / "stock.pt", "--format", "fairseq", *own]
    done = run(*words, check=False)
    assert done.returncode == 2 and "scaled" in done.stderr and "refused" not in done.stderr
    assert not (tmp_path / "stock.pt").exists()


@pytest.mark.integration
def test_a_table_of_ones_own_is_filled(tmp_path):
    done = follow("pairs", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "== pairs table-1: Drophead with output disagreement" in done.stdout
    assert (tmp_path / "out/smoke/tables/pairs-table-1-2-updates.md").is_file()
