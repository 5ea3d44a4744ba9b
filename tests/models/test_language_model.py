"""Our language models equal fairseq's, have the named shapes, and refuse invalid options."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer_lm import (
    TransformerLanguageModel,
    TransformerLanguageModelConfig,
)

from diverse_mha.models.language_model import DiverseLanguageModel
from tests.toy import toy_task

SMALL = {
    "decoder_embed_dim": 16,
    "decoder_input_dim": 16,
    "decoder_output_dim": 16,
    "decoder_ffn_embed_dim": 24,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "dropout": 0.0,
}
ADAPTIVE = {
    "adaptive_input": True,
    "adaptive_input_cutoff": "6,10",
    "adaptive_softmax_cutoff": "6,10",
    "adaptive_input_factor": 2,
    "adaptive_softmax_factor": 2,
    "tie_adaptive_weights": True,
    "tie_adaptive_proj": True,
}
TOKENS = torch.tensor([[2, 5, 7, 9, 4, 8], [2, 6, 4, 12, 1, 1]])


def build(arch="transformer_lm_disagree", **options):
    config = MODEL_DATACLASS_REGISTRY[arch](**{**SMALL, **options})
    torch.manual_seed(1)
    return MODEL_REGISTRY[arch].build_model(config, toy_task())


def build_stock(**options):
    args = Namespace(**{**vars(TransformerLanguageModelConfig()), **SMALL, **options})
    args.max_target_positions = 1024
    torch.manual_seed(1)
    return TransformerLanguageModel.build_model(args, toy_task())


VARIANTS = {
    "post-norm": {},
    "pre-norm": {"decoder_normalize_before": True},
    "adaptive": ADAPTIVE,
    "no-final-norm": {"decoder_normalize_before": True, "no_decoder_final_norm": True},
    "wide-table": {"decoder_input_dim": 24, "decoder_output_dim": 24},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameters_outputs_and_gradients_equal_stock(variant):
    ours, stock = build(**VARIANTS[variant]), build_stock(**VARIANTS[variant])
    own, theirs = ours.state_dict(), stock.state_dict()
    assert own.keys() == theirs.keys()
    # fairseq does not initialise _float_tensor.
    names = [name for name in own if not name.endswith("_float_tensor")]
    assert all(torch.equal(own[name], theirs[name]) for name in names)
    stock.load_state_dict(own)
    results = []
    for model in (ours, stock):
        out = model.double().train()(TOKENS)[0][TOKENS.ne(1)]
        out.logsumexp(0).sum().backward()
        results.append([out, *(p.grad for p in model.parameters() if p.grad is not None)])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


def test_named_shapes_exist_and_ptb_has_the_shape_of_the_paper():
    for family in ("disagree", "routing", "coda"):
        for suffix in ("", "_tiny", "_ptb", "_wiki103"):
            name = f"transformer_lm_{family}{suffix}"
            assert issubclass(MODEL_REGISTRY[name], DiverseLanguageModel)
    ptb = MODEL_DATACLASS_REGISTRY["transformer_lm_disagree_ptb"]()
    assert (ptb.decoder_layers, ptb.decoder_embed_dim, ptb.decoder_attention_heads) == (2, 256, 4)
    assert (ptb.decoder_input_dim, ptb.decoder_normalize_before) == (None, True)


REFUSED = {
    "--aggregation-encoder-layers 1: the model has no encoder attention": {
        "aggregation_encoder_layers": "1"
    },
    "--tie-adaptive-weights needs --adaptive-input$": {"tie_adaptive_weights": True},
    "--adaptive-input-cutoff 6,10 to equal --adaptive-softmax-cutoff 5,10": {
        **ADAPTIVE,
        "adaptive_softmax_cutoff": "5,10",
    },
    "--tie-adaptive-weights needs --decoder-output-dim 8 to equal --decoder-embed-dim 16": {
        **ADAPTIVE,
        "decoder_input_dim": 8,
        "decoder_output_dim": 8,
    },
    "--adaptive-input needs --adaptive-input-cutoff": {"adaptive_input": True},
    "--share-decoder-input-output-embed: contradicts --adaptive-input": {
        "adaptive_input": True,
        "adaptive_input_cutoff": "6,10",
        "share_decoder_input_output_embed": True,
    },
    "--share-decoder-input-output-embed needs --decoder-input-dim 24 to equal --decoder-output-": {
        "decoder_input_dim": 24,
        "share_decoder_input_output_embed": True,
    },
    "--adaptive-input-cutoff 6,100: give increasing numbers from 1 to 16, the size of": {
        "adaptive_input": True,
        "adaptive_input_cutoff": "6,100",
    },
    "--adaptive-softmax-cutoff 8,6: give increasing": {"adaptive_softmax_cutoff": "8,6"},
    "--adaptive-softmax-cutoff six: give increasing": {"adaptive_softmax_cutoff": "six"},
    "--logits mlp: needs at least two layers in one component;": {
        "decoder_layers": 1,
        "logits": "mlp",
    },
    "--scale-heads: NormFormer scaling is not supported": {"scale_heads": True},
    "--no-decoder-final-norm has no effect without": {"no_decoder_final_norm": True},
    "--decoder-attention-heads 0 does not divide": {"decoder_attention_heads": 0},
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_options_are_refused(message):
    with pytest.raises(ValueError, match=message):
        build(**REFUSED[message])


def test_offload_activations_implies_checkpointing():
    model = build("transformer_lm_disagree", offload_activations=True)
    assert all(hasattr(layer, "precheckpoint_forward") for layer in model.decoder.layers)
