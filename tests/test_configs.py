"""Recipes build the models of their papers.

Parameters are on torch's meta device, because only their shapes matter.
"""

import pytest
import torch
import yaml
from fairseq import tasks

import diverse_mha
from diverse_mha.common.files import CONFIGS
from tests.recipes import recipe

diverse_mha.register()

IWSLT14 = {"de": 8844, "en": 6628}  # dictionary sizes without the four special symbols
PTB, WIKITEXT103 = 10004, 267740
RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
METHODS = sorted(path.stem for path in (CONFIGS / "method").glob("*.yaml"))
LANGUAGES = ("de", "en", "zh", "ru", "lm", "qo")


@pytest.fixture
def build(tmp_path):
    """Function that builds the model and criterion of a recipe for given dictionary sizes."""

    def write(name: str, size: int) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(f"w{number} 1\n" for number in range(size)))

    def build(config, words: int | dict[str, int] = 100):
        one = words if isinstance(words, int) else 100
        sizes = dict.fromkeys(LANGUAGES, one) | (words if isinstance(words, dict) else {})
        for language, size in sizes.items():
            write(f"dict.{language}.txt", size)
        for name in ("dict.txt", "input0/dict.txt", "input1/dict.txt"):
            write(name, one)
        for name in ("label", "length"):
            write(f"{name}/dict.txt", 7)
        config.task.data = str(tmp_path)
        task = tasks.setup_task(config.task)
        with torch.device("meta"):
            model = task.build_model(config.model)
        return model, task.build_criterion(config.criterion)

    return build


def millions(model) -> float:
    return round(sum(p.numel() for p in model.parameters()) / 1e6, 2)


@pytest.mark.integration
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_builds_its_model_and_criterion(name, build):
    cfg = recipe(name)
    adaptive = "adaptive" in cfg.criterion._name  # adaptive softmax needs a large dictionary
    model, _ = build(cfg, 61000 if adaptive else 100)
    assert cfg.criterion._name.endswith("_with_diversity") and millions(model) > 0.01


@pytest.mark.integration
@pytest.mark.parametrize("method", METHODS)
def test_a_method_builds_and_changes_model_or_loss(method, build):
    cfg, plain = recipe("multi30k_small", f"method={method}"), recipe("multi30k_small")
    changed = (cfg.model, cfg.criterion) != (plain.model, plain.criterion)
    assert changed == (method != "baseline")
    assert millions(build(cfg)[0]) > 0


SIZES = {"base": (512, 8, 100000), "big": (1024, 16, 300000), "big_8_heads": (1024, 8, 300000)}


@pytest.mark.parametrize("size", SIZES)
def test_a_size_sets_dimensions_and_updates(size, build):
    cfg = recipe("wmt14_en_de", f"size={size}")
    layer = build(cfg)[0].encoder.layers[0]
    updates = cfg.optimization.max_update
    assert (layer.embed_dim, layer.self_attn.num_heads, updates) == SIZES[size]


@pytest.mark.integration
@pytest.mark.parametrize("heads", [4, 8, 16, 32])
@pytest.mark.parametrize("method", ["baseline", "coda"])
def test_iwslt14_sweep_builds_for_every_number_of_heads(method, heads, build):
    sides = [f"model.{side}_attention_heads={heads}" for side in ("encoder", "decoder")]
    model, _ = build(recipe("iwslt14_de_en", f"method={method}", *sides), IWSLT14)
    assert model.encoder.layers[0].self_attn.num_heads == heads
    assert model.decoder.layers[5].encoder_attn.num_heads == heads
    if heads == 4:  # Zheng et al. 2021, Table 2
        assert millions(model) == (39.47 if method == "baseline" else 39.48)


def test_penn_treebank_has_the_shape_of_the_paper(build):
    cfg = recipe("ptb")
    model, _ = build(cfg, PTB)
    layers = model.decoder.layers
    assert (len(layers), layers[0].self_attn.num_heads, layers[0].embed_dim) == (2, 4, 256)
    # Expected: a shared embedding of 256 for each word, and two layers of 12 * 256^2 weights and
    # their biases.
    assert sum(p.numel() for p in model.parameters()) == (PTB + 4) * 256 + 2 * 789760 + 2 * 256
    assert cfg.checkpoint.best_checkpoint_metric == "loss"


def test_classifiers_have_the_settings_of_the_paper():
    """Li et al. 2021, sections 4.2.2 and 4.3.2."""
    logic, probing = recipe("logic"), recipe("probing")
    model, training = logic.model, logic.optimization
    assert (model.dropout, training.lr, training.max_epoch) == (0.2, [0.0001], 100)
    shape = model.encoder_layers, model.encoder_embed_dim, str(model.pooling)
    assert shape == (2, 256, "queries")
    assert (model.pooling_queries, model.classifier_layers) == (2, 3)
    assert (probing.optimization.lr, probing.optimization.max_epoch) == ([0.0005], 250)
    model = probing.model
    assert (model.encoder_layers, model.encoder_embed_dim, str(model.pooling)) == (6, 512, "mean")
    assert model.encoder_ffn_embed_dim == 2048
    for cfg in (logic, probing):
        assert cfg.checkpoint.maximize_best_checkpoint_metric is True
        assert cfg.checkpoint.best_checkpoint_metric == "accuracy"


@pytest.mark.integration
@pytest.mark.parametrize("method, size", [("baseline", 246.93), ("coda", 246.96)])
def test_wikitext103_has_the_parameters_of_the_paper(method, size, build):
    """Zheng et al. 2021, Table 1."""
    model, criterion = build(recipe("wiki103", f"method={method}"), WIKITEXT103)
    assert len(model.decoder.layers) == 16
    assert type(criterion).__name__ == "AdaptiveLossWithDiversity"
    assert millions(model) == size


def test_config_files_differ_and_every_recipe_is_documented():
    contents = [yaml.safe_load(path.read_text()) for path in CONFIGS.rglob("*.yaml")]
    assert len(RECIPES) == 20 and len(METHODS) == 31 and len(contents) == 20 + 31 + 3 + 2
    assert not [one for place, one in enumerate(contents) if one in contents[:place]]
    listed = (CONFIGS.parent / "docs" / "recipes.md").read_text()
    assert not {name for name in RECIPES if f"`{name}.yaml`" not in listed}
