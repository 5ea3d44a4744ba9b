"""fairseq's configuration of recipes: golden files, and what is refused before a preparation.

``configurations.json`` was written at d2bdb92e, when recipes were composed by Hydra's application,
from what reached ``fairseq_cli.train.main``. Changed by hand since: in iwslt14_de_en, wiki103 and
wiki103_small a method no longer means CODA and the method, so the model's name is the plain one;
and the task's option ``allow_other_dictionary`` is new.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import CONFIGS, USER_DIR
from diverse_mha.models.config import seam_options
from diverse_mha.recipes import configuration
from diverse_mha.recipes.configuration import configure
from diverse_mha.recipes.recipe import flatten, groups_of, names_in, read_recipe
from tests.recipes import recipe

GOLDEN = json.loads((Path(__file__).parent / "configurations.json").read_text())
PLACES = ("common.user_dir", "checkpoint.save_dir", "task.data")
RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def plain(cfg) -> dict:
    """Return a configuration by dotted key, with values as JSON has them."""
    values = flatten(OmegaConf.to_container(cfg, resolve=True, enum_to_str=True))
    return json.loads(json.dumps(values, default=str))


@pytest.mark.integration
@pytest.mark.parametrize("name", RECIPES)
def test_the_configuration_that_reaches_fairseq_is_that_of_the_golden_file(name, monkeypatch):
    monkeypatch.setattr(configuration, "_build_without_memory", lambda cfg: None)
    cells = {cell: diff for cell, diff in GOLDEN["cells"].items() if cell.split()[0] == name}
    assert len(cells) >= 3
    for cell, difference in cells.items():
        expected = GOLDEN["common"] | GOLDEN["recipes"][name] | difference
        found = {k: v for k, v in plain(recipe(*cell.split())).items() if k not in PLACES}
        assert found == expected, cell


OFF = {option.name: option.default for option in seam_options()}


def values(name: str) -> dict:
    """Return the values of a file in ``configs/``, by dotted key."""
    read = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    return flatten({group: value for group, value in read.items() if group != "defaults"})


@pytest.mark.parametrize("name", RECIPES)
def test_every_method_and_size_is_composed_of_exactly_its_parts(name):
    """The whole matrix, before fairseq's defaults: recipe, size and method, and nothing else."""
    groups = groups_of(CONFIGS / f"{name}.yaml")
    training = values(f"training/{groups['training']}") if "training" in groups else {}
    for size in names_in(name, "size") if "size" in groups else [None]:
        chosen = [f"size={size}"] if size else []
        expected = values(name) | training | (values(f"size/{size}") if size else {})
        for method in names_in(name, "method"):
            read = read_recipe(name, [f"method={method}", *chosen])
            found = flatten(read.settings)
            folder = found.pop("checkpoint.save_dir")
            assert found == expected | values(f"method/{method}"), (method, size)
            suffix = f"-{size}" if size not in (None, groups.get("size")) else ""
            assert folder == f"runs/{name}/{method}{suffix}"


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", ["multi30k_small", "wmt14_en_de", "ptb", "wiki103", "logic", "probing"]
)
def test_every_method_is_trained_alone_or_refused_before_the_preparation(name, monkeypatch):
    """The recipes have one of these six models; no other method's option is in the composed one."""
    monkeypatch.setattr(configuration, "_fitting", lambda recipe: ["others"])
    refused = set()
    for method in names_in(name, "method"):
        try:
            cfg = recipe(name, f"method={method}")
        except UserError as error:
            assert str(error).startswith(f"method={method}: does not fit {name} (")
            refused.add(method)
            continue
        wanted = yaml.safe_load((CONFIGS / "method" / f"{method}.yaml").read_text())
        for key, default in OFF.items():
            assert same(cfg.model[key], wanted.get("model", {}).get(key, default)), (method, key)
        terms = {"disagreement": None, "hsic_weight": 0, "orthogonality_weight": 0, "cka_weight": 0}
        for key, default in terms.items():
            own = wanted.get("criterion", {}).get(key, default)
            assert same(cfg.criterion[key], own), (method, key)
    encoder = {"em_routing_1_2", "em_routing_encoder", "simple_routing_encoder"}
    encoder |= {"disagreement_em_routing"}
    several = {"em_routing_encoder_cross", "em_routing_cross"}
    assert refused == {
        "ptb": encoder | several,
        "wiki103": encoder | several,
        "logic": several | {"em_routing_decoder"},
        "probing": several | {"em_routing_decoder"},
    }.get(name, set())


def test_a_refused_method_names_those_that_fit():
    with pytest.raises(UserError, match="does not fit ptb .*; choose from em_routing_decoder, "):
        recipe("ptb", "method=em_routing_1_2")


def same(one, other) -> bool:
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return (None if one in (None, "none", "None") else str(one)) == (
            None if other in (None, "none") else str(other)
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["modle.dropout=0.2"], "modle.dropout=0.2: there is no group modle; the nearest is model"),
        (["model=transformers"], "model._name=transformers: there is no 'transformers'"),
        (["model.dropuot=0.2"], "model.dropuot=0.2: model has no dropuot; the nearest are dropout"),
        (["model.hsic_weight=1"], "model has no hsic_weight; it is criterion.hsic_weight"),
        (["optimization.lr=0.1"], "optimization.lr=0.1: must be a list; give [0.1]"),
        (["optimization.update_freq=4,2"], "update_freq=4,2: must be a list; give [4,2]"),
        (["model.dropout=0,3"], "model.dropout=0,3: give 0.3"),
        (["criterion=cross_entropyy"], "there is no 'cross_entropyy'; the nearest are cross_entr"),
        (["model.dropout=low"], "model.dropout=low: Value 'low' of type 'str' could not be conv"),
        (["dataset.max_tokens=4k"], "dataset.max_tokens=4k: Value '4k'"),
        (["common.cpu=maybe"], "common.cpu=maybe: Value 'maybe'"),
        (["generation.beam=0"], "generation.beam=0; give a whole number, 1 or more"),
        (["model.encoder_attention_heads=3"], "encoder_attention_heads=3 does not divide"),
        (["model.logits_on=encoder"], "no effect without"),
        (["criterion.disagreement=outputs"], "unknown 'outputs'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_prepared(words, message):
    with pytest.raises(UserError) as caught:
        recipe("multi30k_small", *words)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "word",
    ["optimization.clip_norm=1e-3", "model.dropout=0", "common.cpu=yes", "dataset.batch_size=null"]
    + ["optimization.lr=[0.1,1]", "optimizer.adam_betas=(0.9,0.98)"],
)
def test_values_that_a_training_reads_are_not_refused(word):
    assert recipe("multi30k_small", word).task._name == "exact_translation"


def test_our_options_are_refused_for_a_model_of_fairseq():
    words = ["model._name=transformer_lm", "model.logits=residual"]
    with pytest.raises(UserError, match=r"model has no logits; give model\._name=transformer_lm_"):
        recipe("ptb", *words)
    cfg = recipe("ptb", "criterion._name=cross_entropy", "criterion.disagreement_weight=null")
    assert "hsic_weight" not in cfg.criterion, "what the baseline switches off is left out"


def test_a_named_architecture_brings_its_shape():
    """The recipe's widths must not win over it; those of the command line do."""
    name = "model._name=transformer_disagree_iwslt_de_en"
    model = recipe("multi30k_small", name, "model.decoder_layers=3").model
    shape = model.encoder_embed_dim, model.encoder_ffn_embed_dim, model.encoder_layers
    assert (*shape, model.decoder_layers, model.dropout) == (512, 1024, 6, 3, 0.1)
    assert recipe("multi30k_small", "model._name=transformer_disagree").model.encoder_layers == 4


@pytest.mark.parametrize("method", ["baseline", "hsic"])
def test_a_name_that_brings_another_method_is_refused(method):
    words = ["model._name=transformer_coda", f"method={method}"]
    with pytest.raises(UserError, match=f"sets logits=mlp, which method={method} does not"):
        recipe("multi30k_small", *words)
    assert recipe("multi30k_small", words[0], "method=coda").model.logits == "mlp"


def test_places_are_found_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = recipe("demo", f"task.data=a{os.pathsep}b")
    assert cfg.task.data == os.pathsep.join(str(tmp_path / part) for part in "ab")
    assert cfg.common.user_dir == str(USER_DIR)
    with pytest.raises(UserError, match="mine: not a package"):
        recipe("demo", "common.user_dir=mine")


def test_the_check_leaves_random_numbers_and_the_recipe_as_they_are():
    torch.manual_seed(3)
    before, read = torch.get_rng_state(), read_recipe("demo", ["method=coda"])
    settings = json.dumps(read.settings)
    configure(read)
    assert torch.equal(before, torch.get_rng_state()) and settings == json.dumps(read.settings)


@pytest.mark.integration
def test_fairseqs_own_command_takes_the_composed_file(tmp_path):
    """``fairseq-hydra-train`` gets the same configuration, but for its logging."""
    words = ["multi30k_small", "method=coda+hsic", "common.seed=5"]
    text = subprocess.run(
        [sys.executable, "-m", "diverse_mha.cli", "recipe", *words],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (tmp_path / "mine.yaml").write_text(text)
    code = (
        "import json, sys; from omegaconf import OmegaConf\n"
        "from fairseq.distributed import utils; import fairseq_cli.hydra_train as h\n"
        "from fairseq.dataclass.initialize import add_defaults\n"
        "from fairseq.utils import import_user_module\n"
        "def show(cfg, main):\n"
        "    import_user_module(cfg.common); OmegaConf.set_struct(cfg, False); add_defaults(cfg)\n"
        "    values = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)\n"
        "    print('CFG', json.dumps(values, default=str))\n"
        "utils.call_main = show; h.cli_main()\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, "--config-dir", str(tmp_path)]
    command += ["--config-name", "mine", "hydra.run.dir=.", f"common.user_dir={USER_DIR}"]
    environment = os.environ | {"PYTHONPATH": str(USER_DIR.parent)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert "CFG " in done.stdout, done.stderr[-2000:]
    theirs = flatten(json.loads(done.stdout.partition("CFG ")[2].splitlines()[0]))
    ours = plain(configure(read_recipe(tmp_path / "mine.yaml")))
    left = (*PLACES, "job_logging_cfg")
    differing = {
        key: (ours.get(key), theirs.get(key))
        for key in ours.keys() | theirs.keys()
        if ours.get(key) != theirs.get(key) and not key.startswith(left)
    }
    assert not differing
    shutil.rmtree(tmp_path / "outputs", ignore_errors=True)
