"""transformer_routing: its layers, parameters and options."""

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

from diverse_mha.evaluation.ablation import sites_of
from diverse_mha.methods.routing import RoutingAggregation
from tests.toy import build_ours, toy_task

# Li et al. 2021, Tables 3 and 4 (Base): layers by component, number of modules.
TABLES = {
    "encoder 1-6": ({"encoder": "all"}, 6),
    "cross 1-6": ({"encoder": None, "cross": "all"}, 6),
    "decoder 1-6": ({"encoder": None, "decoder": "all"}, 6),
    "encoder and cross": ({"encoder": "all", "cross": "all"}, 12),
    "all": ({"encoder": "all", "cross": "all", "decoder": "all"}, 18),
    "encoder 4-6": ({"encoder": "4,5,6"}, 3),
    "encoder 1-3": ({"encoder": "1,2,3"}, 3),
    "encoder 1,2": ({}, 2),
    "encoder 6": ({"encoder": "6"}, 1),
    "encoder 1": ({"encoder": "1"}, 1),
}


def count_parameters(arch, **options) -> int:
    """Return the number of parameters of a model of the paper's shape, built on the meta device."""
    config = MODEL_DATACLASS_REGISTRY[arch](**options)
    with torch.device("meta"):
        model = MODEL_REGISTRY[arch].build_model(config, toy_task())
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("row", TABLES)
@pytest.mark.parametrize("kind", ["em-routing", "simple-routing"])
def test_parameter_counts_agree_with_tables_3_and_4(kind, row):
    layers, modules = TABLES[row]
    options = {f"aggregation_{component}_layers": value for component, value in layers.items()}
    base = count_parameters("transformer_disagree_wmt_en_de")
    routed = count_parameters("transformer_routing_wmt_en_de", aggregation=kind, **options)
    assert routed - base == modules * 2_101_248  # the paper: "+2.1M"


def test_routing_in_two_layers_of_big_adds_33_million_parameters():
    added = count_parameters("transformer_routing_wmt_en_de_big") - count_parameters(
        "transformer_disagree_wmt_en_de_big"
    )
    assert added == 2 * (1024 * 16 * 1024 + 16 * 1024)
    assert round(added / 1e6, 1) == 33.6  # the paper: 264M to 297M
    # With 8 heads the difference is 16.8M, not the 24M of the paper's Table 6.
    with_8 = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    added = count_parameters("transformer_routing_wmt_en_de_big", **with_8) - count_parameters(
        "transformer_disagree_wmt_en_de_big", **with_8
    )
    assert round(added / 1e6, 1) == 16.8


def routed_layers(model) -> list:
    sites = sites_of(model)
    return [site[:2] for site in sites if isinstance(site.attention.out_proj, RoutingAggregation)]


def test_default_is_em_routing_in_the_first_two_encoder_layers():
    model = build_ours("transformer_routing", encoder_layers=3)
    assert routed_layers(model) == [("encoder", 1), ("encoder", 2)]
    assert model.encoder.layers[0].self_attn.out_proj.kind == "em-routing"


def test_routing_has_the_given_layers_and_options():
    model = build_ours(
        aggregation="simple-routing",
        aggregation_cross_layers="2",
        aggregation_decoder_layers="all",
        routing_iterations=2,
        routing_capsules=8,
        routing_softmax_over="heads",
        routing_post_norm=True,
        activation_dropout=0.1,
    )
    assert routed_layers(model) == [("cross", 2), ("decoder", 1), ("decoder", 2)]
    module = model.decoder.layers[0].self_attn.out_proj
    assert module.capsules == 8 and module.dropout == 0.1
    assert module.options == {"iterations": 2, "softmax_over": "heads"}
    assert module.post_norm is not None and module.pre_norm is None


def test_routing_has_the_dropout_of_the_feed_forward_block():
    model = build_ours(
        aggregation="em-routing", aggregation_encoder_layers="1", relu_dropout=0.3
    )  # older name of --activation-dropout
    layer = model.encoder.layers[0]
    assert layer.activation_dropout_module.p == layer.self_attn.out_proj.dropout == 0.3


REFUSED = {
    "--aggregation-encoder-layers 0: there is no layer '0'; give numbers from 1 to 2": {
        "aggregation_encoder_layers": "0"
    },
    "--aggregation-decoder-layers first: there is no layer 'first'": {
        "aggregation_decoder_layers": "first"
    },
    "--routing-capsules 5 does not divide --encoder-embed-dim 16": {"routing_capsules": 5},
    "--routing-softmax-over heads has no effect with --aggregation em-routing; use it with": {
        "routing_softmax_over": "heads"
    },
    "--routing-iterations 0: must be 1 or more": {"routing_iterations": 0},
    "--aggregation-encoder-layers 1,2 has no effect with --aggregation linear; .*-layers none": {
        "aggregation": "linear"
    },
    "--aggregation em-routing is used in no layer": {"aggregation_encoder_layers": "none"},
    "--aggregation-cross-layers 1: the model has no cross attention": {
        "no_cross_attention": True,
        "aggregation_cross_layers": "1",
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_options_of_routing_are_refused(message):
    with pytest.raises(ValueError, match=message):
        build_ours("transformer_routing", **REFUSED[message])
