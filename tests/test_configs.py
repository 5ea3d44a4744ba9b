"""The recipes build the models that their papers describe.

Parameters are made on torch's meta device: their shapes are all that is looked at.
"""

import functools
from argparse import Namespace

import pytest
import torch
import yaml
from fairseq import criterions, models
from fairseq.data import Dictionary

import diverse_mha  # noqa: F401 (registers)
from diverse_mha.common.errors import OptionError
from diverse_mha.common.places import CONFIGS
from tests.recipes import recipe

IWSLT14 = (8848, 6632)  # entries of the dictionaries, special symbols included
PTB, WIKITEXT103 = 10008, 267744
TRANSFORMER = "transformer_disagree_iwslt_de_en"


@functools.cache
def dictionary(size: int) -> Dictionary:
    words = Dictionary()
    for number in range(size - len(words)):
        words.add_symbol(f"w{number}")
    return words


def build(cfg, *sizes: int):
    """Build the model and the criterion of a recipe, with dictionaries of these sizes."""
    words = [dictionary(size) for size in sizes]
    task = Namespace(
        source_dictionary=words[0],
        target_dictionary=words[-1],
        cfg=cfg.task,
        max_positions=lambda: (1024, 1024),
    )
    with torch.device("meta"):
        model = models.build_model(cfg.model, task)
    return model, criterions.build_criterion(cfg.criterion, task)


def millions(model) -> float:
    return round(sum(p.numel() for p in model.parameters()) / 1e6, 2)


@pytest.mark.integration
@pytest.mark.parametrize("heads", [4, 8, 16, 32])
@pytest.mark.parametrize("name", [TRANSFORMER, "transformer_coda_iwslt_de_en"])
def test_iwslt14_sweep_builds_for_every_number_of_heads(name, heads):
    cfg = recipe(
        "iwslt14_de_en",
        f"model._name={name}",
        f"model.encoder_attention_heads={heads}",
        f"model.decoder_attention_heads={heads}",
    )
    model, _ = build(cfg, *IWSLT14)
    assert model.encoder.layers[0].self_attn.num_heads == heads
    assert model.decoder.layers[5].encoder_attn.num_heads == heads
    if heads == 4:  # Zheng et al. 2021, Table 2
        assert millions(model) == (39.47 if name == TRANSFORMER else 39.48)


def test_penn_treebank_has_the_shape_of_the_paper():
    cfg = recipe("ptb")
    model, _ = build(cfg, PTB)
    layers = model.decoder.layers
    assert (len(layers), layers[0].self_attn.num_heads, layers[0].embed_dim) == (2, 4, 256)
    # One embedding of 256 for each word, used twice; two layers of 12 * 256^2 and their biases.
    assert sum(p.numel() for p in model.parameters()) == PTB * 256 + 2 * 789760 + 2 * 256
    assert cfg.checkpoint.best_checkpoint_metric == "loss"


def test_classifiers_have_the_settings_of_the_paper():
    """Li et al. 2021, sections 4.2.2 and 4.3.2."""
    logic, probing = recipe("logic"), recipe("probing")
    model, training = logic.model, logic.optimization
    assert (model.dropout, training.lr, training.max_epoch) == (0.2, [0.0001], 100)
    assert (model.encoder_layers, model.encoder_embed_dim, str(model.pooling)) == (
        2,
        256,
        "queries",
    )
    assert (model.pooling_queries, model.classifier_layers) == (2, 3)
    assert (probing.optimization.lr, probing.optimization.max_epoch) == ([0.0005], 250)
    model = probing.model
    assert (model.encoder_layers, model.encoder_embed_dim, str(model.pooling)) == (6, 512, "mean")
    assert model.encoder_ffn_embed_dim == 2048
    for cfg in (logic, probing):
        assert cfg.checkpoint.maximize_best_checkpoint_metric is True
        assert cfg.checkpoint.best_checkpoint_metric == "accuracy"


@pytest.mark.integration
@pytest.mark.parametrize("family, size", [("disagree", 246.93), ("coda", 246.96)])
def test_wikitext103_has_the_parameters_of_the_paper(family, size):
    """Zheng et al. 2021, Table 1."""
    cfg = recipe("wiki103", f"model._name=transformer_lm_{family}_wiki103")
    model, criterion = build(cfg, WIKITEXT103)
    assert len(model.decoder.layers) == 16
    assert type(criterion).__name__ == "AdaptiveLossWithDiversity"
    assert millions(model) == size


@pytest.mark.parametrize("family", ["disagree", "coda"])
def test_shrunken_wikitext103_builds(family):
    cfg = recipe("wiki103_small", f"model._name=transformer_lm_{family}")
    model, _ = build(cfg, PTB)
    bands = model.decoder.embed_tokens.embeddings
    assert [len(band[0].weight) for band in bands] == [2000, 3000, 5008]
    updates = cfg.lr_scheduler.warmup_updates + cfg.lr_scheduler.lr_period_updates
    assert updates == cfg.optimization.max_update, "the cosine ends with the training"


def test_language_models_take_the_routing_that_the_page_names():
    layers = "model.aggregation_decoder_layers="
    page = (CONFIGS.parent / "docs" / "recipes.md").read_text()
    assert "For a language model use `method=em_routing_decoder`." in page
    assert f"To route in two layers only, add\n`{layers}1,2`." in page
    build(recipe("demo_lm", "method=em_routing_decoder", f"{layers}'1,2'"), 100)
    for name in ("em_routing_1_2", "em_routing_cross", "disagreement_em_routing"):
        with pytest.raises(OptionError, match="the model has no (encoder|cross) attention"):
            build(recipe("demo_lm", f"method={name}"), 100)


def test_no_file_repeats_another():
    contents = [yaml.safe_load(path.read_text()) for path in CONFIGS.rglob("*.yaml")]
    assert len(contents) > 40
    assert not [one for place, one in enumerate(contents) if one in contents[:place]]


def test_every_recipe_is_listed():
    listed = (CONFIGS.parent / "docs" / "recipes.md").read_text()
    names = {path.name for path in CONFIGS.glob("*.yaml")}
    assert len(names) >= 6
    assert not {name for name in names if f"`{name}`" not in listed}
