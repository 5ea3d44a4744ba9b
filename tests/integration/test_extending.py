"""The example plugins and their commands work as docs/extending.md shows them."""

import json
import re
import shlex

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
    assert len(FILES) == 4 and all(len(text.splitlines()) <= 60 for text in FILES.values())


def write(name, folder):
    """Write an example plugin of the page into a folder, and return its path."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(FILES[f"{name}/__init__.py"])
    return folder / name


def follow(name, folder, *more, data=""):
    """Write an example plugin into a folder, and run the command that the page gives for it."""
    write(name, folder)
    program, *words = shlex.split(COMMANDS[name].replace("\\\n", "").replace("DATA", str(data)))
    return run(MODULES[program], *words, *more, cwd=folder)


@pytest.mark.integration
def test_a_custom_term_trains_and_is_logged(data, tmp_path):
    done = follow("balance", tmp_path, *SMALL.split(), data=data)
    values = re.findall(r"(?<!valid_)balance[=| ]+([\d.]+)", done.stdout + done.stderr)
    assert values and all(float(value) > 0 for value in values)
    kept = torch.load(tmp_path / "runs/balance/checkpoint_last.pt", weights_only=False)
    assert kept["cfg"]["criterion"]["balance_weight"] == "0.5"
    # A run that is resumed without the plugin must fail: it would silently lose the term.
    words = shlex.split(COMMANDS["balance"].replace("\\\n", "").replace("DATA", str(data)))[1:]
    words[words.index("balance")], term = ROOT / "diverse_mha", words.index("--balance-weight")
    del words[term : term + 4]  # also --balance-on and its value
    done = run("fairseq_cli.train", *words, *SMALL.split(), cwd=tmp_path, check=False)
    printed = "trained with --balance-weight 0.5, which is no longer registered; give"
    assert done.returncode == 1 and printed in done.stderr and "Traceback" not in done.stderr


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
def test_a_recipe_uses_a_custom_term(data, tmp_path):
    plugin = write("balance", tmp_path)
    recipe = tmp_path / "mine.yaml"

    def train_with(user_dir):
        recipe.write_text(RECIPE.format(user_dir=user_dir, data=data))
        return run("diverse_mha.training.train", "--config", recipe, cwd=tmp_path, check=False)

    done = train_with(plugin)
    printed = done.stdout + done.stderr
    assert done.returncode == 0 and re.search(r"balance=[\d.]+", printed), printed[-3000:]
    done = train_with(tmp_path / "gone")
    missing = f"error: common.user_dir={tmp_path}/gone: not a package"
    assert done.returncode == 2 and missing in done.stderr


@pytest.mark.integration
def test_a_custom_aggregation_is_built_saved_and_loaded(data, tmp_path):
    follow("scaled", tmp_path, *SMALL.split(), data=data)
    kept = torch.load(tmp_path / "runs/scaled/checkpoint_last.pt", weights_only=False)
    scales = [p for name, p in kept["model"].items() if name.endswith("out_proj.scales")]
    assert len(scales) == 2 and all((p - 0.5).abs().max() < 0.1 for p in scales)
    generate = ["fairseq_cli.generate", data, "--user-dir", "scaled", "--cpu", "--max-len-b", 5]
    path = ["--path", "runs/scaled/checkpoint_last.pt"]
    assert "Generate test" in run(*generate, *path, cwd=tmp_path).stdout


@pytest.mark.integration
def test_custom_options_are_listed(tmp_path):
    write("scaled", tmp_path)
    shown = ["diverse_mha.cli", "options", "transformer_lm_disagree", "--user-dir"]
    text = " ".join(run(*shown, tmp_path / "scaled").stdout.split())
    assert "--scaled-start (default: 1.0)" in text and "scaled (learnt weights" in text
    done = run(*shown, tmp_path / "gone", check=False)
    assert done.returncode == 2 and "gone: not a package" in done.stderr and not done.stdout


@pytest.mark.long
@pytest.mark.integration
def test_a_model_with_a_custom_method_translates_but_cannot_be_exported(tmp_path):
    scripts.run("demo", "--out", "demo", "--pairs", 300, "--merges", 60, cwd=tmp_path)
    follow("scaled", tmp_path, *SMALL.split(), data=tmp_path / "demo/bin")
    model, text = tmp_path / "runs/scaled/checkpoint_last.pt", tmp_path / "text"
    text.write_text("low\nlow low\n")
    search, own = ["--cpu", "--max-len-b", 5], ["--user-dir", tmp_path / "scaled"]
    words = ["diverse_mha.cli", "translate", model, tmp_path / "demo/bin", *search]
    done = run(*words, input=text.read_text(), check=False)
    assert done.returncode == 2 and "for a value of your own, give --user-dir" in done.stderr
    found = run(*words, *own, input=text.read_text()).stdout
    assert len(found.splitlines()) == 2
    run("diverse_mha.cli", "evaluate", model, tmp_path / "demo/bin", *search, *own)
    result = json.loads((tmp_path / "runs/scaled/checkpoint_last.test.json").read_text())
    assert result["generate_options"] == ["--max-len-b", "5"], "a plugin is no search option"
    words = ["diverse_mha.cli", "export", model, tmp_path / "stock.pt", "--format", "fairseq", *own]
    done = run(*words, check=False)
    assert done.returncode == 2 and "scaled" in done.stderr and "refused" not in done.stderr
    assert not (tmp_path / "stock.pt").exists()


@pytest.mark.integration
def test_a_custom_projection_map_trains(data, tmp_path):
    follow("widened", tmp_path, *SMALL.split(), data=data)
    kept = torch.load(tmp_path / "runs/widened/checkpoint_last.pt", weights_only=False)
    factors = [v for name, v in kept["model"].items() if name.endswith("projections.factor")]
    assert len(factors) == 6 and all(float(factor) != 1.0 for factor in factors)


@pytest.mark.integration
def test_importing_the_plugin_from_another_package_registers_it(data, tmp_path):
    """The other package is imported by a program and given as ``--user-dir``."""
    (tmp_path / "thirdpkg").mkdir()
    (tmp_path / "thirdpkg/__init__.py").write_text("import diverse_mha\n")
    (tmp_path / "thirdpkg/tool.py").write_text(
        "import sys\nfrom fairseq.models import ARCH_MODEL_REGISTRY as models\n"
        "from fairseq.criterions import CRITERION_REGISTRY as criterions\n"
        "assert sys.excepthook is sys.__excepthook__\n"
        "print('transformer_coda' in models, 'cross_entropy_with_diversity' in criterions)\n"
    )
    done = run("thirdpkg.tool", cwd=tmp_path, fresh=True)
    assert done.stdout.split() == ["True", "True"]
    words = shlex.split(COMMANDS["balance"].replace("\\\n", "").replace("DATA", str(data)))[1:]
    words = (
        " ".join(words).replace("balance-weight", "hsic-weight").replace("balance-on", "hsic-on")
    )
    words = words.replace("--user-dir balance", "--user-dir thirdpkg").split()
    done = run("fairseq_cli.train", *words, *SMALL.split(), cwd=tmp_path)
    assert re.search(r"(?<!valid_)hsic[=| ]+[\d.]+", done.stdout + done.stderr)


@pytest.mark.long
@pytest.mark.integration
def test_a_custom_table_is_filled(local_table, tmp_path):
    data = local_table / "smoke/data"
    done = follow("pairs", tmp_path, "--out", tmp_path / "out", "--data", data)
    assert "== pairs table-1: Drophead with output disagreement" in done.stdout
    assert (tmp_path / "out/smoke/tables/pairs-table-1-2-updates.md").is_file()
