"""Checkpoints converted to stock fairseq."""

from argparse import Namespace

import pytest
import torch
from fairseq import models
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from diverse_mha.common.errors import UserError
from diverse_mha.models.stock_form import stock_state
from diverse_mha.tasks.text import ExactLanguageModelingConfig, ExactTranslationConfig
from tests.toy import SMALL, toy_batch, toy_task

LM = {"decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24, "decoder_attention_heads": 4}
ADAPTIVE = {"adaptive_softmax_cutoff": [4, 8], "adaptive_softmax_factor": 2}
MODELS = {
    "translation": ("transformer_disagree", SMALL | {"encoder_normalize_before": True}),
    "shared": ("transformer_disagree_small", {"share_all_embeddings": True, "drophead": 0.1}),
    "drophead": ("transformer_disagree", SMALL | {"drophead": 0.1}),
    "no routing": (
        "transformer_routing",
        SMALL | {"aggregation": "linear", "aggregation_encoder_layers": None},
    ),
    "language model": ("transformer_lm_disagree_tiny", LM),
    "adaptive": ("transformer_disagree", SMALL | ADAPTIVE | {"share_all_embeddings": True}),
    "adaptive language model": (
        "transformer_lm_disagree_tiny",
        LM | ADAPTIVE | {"share_decoder_input_output_embed": True, "adaptive_softmax_cutoff": "4"},
    ),
    "knocking heads": (
        "transformer_disagree",
        SMALL | {"projections": "knocking-heads", "projections_on": "encoder,cross"},
    ),
    "pruned": (
        "transformer_disagree",
        SMALL
        | {"pruned_heads": "encoder 1.3 2.1 2.2 2.4, cross 1.1, decoder 2.4"}
        | {"projections": "knocking-heads"},
    ),
    "pruned language model": (
        "transformer_lm_disagree_tiny",
        LM | {"pruned_heads": "decoder 1.1 1.4"},
    ),
    "post-norm language model": ("transformer_lm_disagree", LM | {"decoder_output_dim": 16}),
}


def checkpoint(arch: str, options: dict) -> dict:
    """Return a checkpoint of one of our models, as fairseq loads it."""
    config = MODEL_DATACLASS_REGISTRY[arch](**options)
    task = ExactLanguageModelingConfig if "_lm" in arch else ExactTranslationConfig
    own = OmegaConf.structured(task(data="somewhere"))
    model = {k: v for k, v in vars(config).items() if not str(v).startswith("${")}
    cfg = OmegaConf.create(
        {
            "common": {"user_dir": "/gone", "tpu": False},
            "model": {**model, "_name": arch},
            "task": {k: v for k, v in OmegaConf.to_container(own).items() if "${" not in str(v)},
        }
    )
    return {"cfg": cfg, "model": models.build_model(cfg.model, toy_task()).state_dict()}


@pytest.mark.parametrize("namespace", [False, True])
@pytest.mark.parametrize("case", MODELS)
def test_stock_fairseq_builds_the_same_model(case, namespace):
    arch, options = MODELS[case]
    torch.manual_seed(1)
    state = checkpoint(arch, options)
    for name, value in state["model"].items():
        if name.endswith("projections.shared"):
            torch.nn.init.normal_(value)  # the initial value is the identity
    own = models.build_model(state["cfg"].model, toy_task())
    made = stock_state("x.pt", state, namespace=namespace)
    args = made["args"] if namespace else OmegaConf.create(made["cfg"]["model"])
    stock = models.build_model(args, toy_task())
    assert type(stock).__module__.startswith("fairseq.models.transformer")
    for model, parameters in ((own, state["model"]), (stock, made["model"])):
        model.load_state_dict(parameters)
        model.eval()
    inputs = toy_batch()["net_input"]
    real = inputs["prev_output_tokens"] != 1  # outputs at padded positions do not matter
    if "_lm" in arch:
        inputs = {"src_tokens": inputs["prev_output_tokens"]}
    torch.testing.assert_close(stock(**inputs)[0][real], own(**inputs)[0][real])


def test_export_has_no_plugin_options_and_no_training_state():
    made = stock_state("x.pt", checkpoint(*MODELS["translation"]))
    assert "diverse" not in str(made["cfg"])
    assert made["cfg"]["common"]["user_dir"] is None
    assert {"aggregation", "drophead"}.isdisjoint(made["cfg"]["model"])
    assert made["extra_state"] == made["task_state"] == {}
    assert made["last_optimizer_state"] is None
    assert type(stock_state("x.pt", checkpoint(*MODELS["shared"]), namespace=True)["args"]) is (
        Namespace
    )


TALKING = {"logits": "talking-heads"}


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("transformer_routing", SMALL, "x.pt: --aggregation em-routing exists in"),
        ("transformer_coda", SMALL, "x.pt: --logits mlp .* only models with --logits none"),
        ("transformer_disagree", SMALL | TALKING, "x.pt: --logits talking-heads"),
    ],
)
def test_methods_that_fairseq_lacks_are_refused(arch, options, message):
    with pytest.raises(UserError, match=message):
        stock_state("x.pt", checkpoint(arch, options))


def test_a_method_of_a_missing_plugin_is_reported():
    state = checkpoint(*MODELS["translation"])
    state["cfg"].model.aggregation = "scaled"
    with pytest.raises(UserError, match="x.pt: --aggregation scaled: .* needs --user-dir"):
        stock_state("x.pt", state)


@pytest.mark.parametrize("name", ["sentence_classifier", "transformer", "gone"])
def test_models_of_other_architectures_are_refused(name):
    state = {"cfg": OmegaConf.create({"model": {"_name": name}, "task": {}}), "model": {}}
    with pytest.raises(UserError, match=f"x.pt: architecture '{name}' cannot be exported"):
        stock_state("x.pt", state)
