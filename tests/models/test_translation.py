"""The model transformer_disagree equals fairseq's transformer."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

from diverse_mha.criterions.diversity import DiversityConfig
from diverse_mha.methods.diversity import DiversityTerms
from diverse_mha.models.config import TRANSLATION_NAMESAKES
from tests.toy import (
    SMALL,
    beam_search,
    build_ours,
    build_stock,
    check_beam_scores,
    log_probs,
    toy_batch,
    toy_dictionary,
    toy_task,
)

VARIANTS = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "shared": {"share_all_embeddings": True, "layernorm_embedding": True},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "no-positions": {"no_token_positional_embeddings": True, "no_scale_embedding": True},
    "narrow-output": {"decoder_output_dim": 8, "decoder_input_dim": 16, "activation_fn": "gelu"},
    "wider-decoder": {"decoder_embed_dim": 24, "decoder_attention_heads": 2},
}


@pytest.mark.parametrize("suffix", TRANSLATION_NAMESAKES)
def test_shapes_under_hydra_are_those_of_stock_architectures(suffix):
    """Hydra reads defaults from the dataclass only. test_namesakes.py tests the command line."""
    config = MODEL_DATACLASS_REGISTRY["transformer_disagree" + suffix]()
    args = Namespace()
    ARCH_CONFIG_REGISTRY["transformer" + suffix](args)
    theirs = {k: v for k, v in vars(args).items() if not k.endswith("put_dim")}
    assert {name: getattr(config, name) for name in theirs} == theirs
    assert len(theirs) > 30


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameters_outputs_and_gradients_equal_stock(variant):
    ours, stock = build_ours(**VARIANTS[variant]), build_stock(**VARIANTS[variant])
    own, theirs = ours.state_dict(), stock.state_dict()
    assert {k: v.shape for k, v in own.items()} == {k: v.shape for k, v in theirs.items()}
    assert all(torch.equal(own[name], theirs[name]) for name in own), (
        "the same seed gives the same initial values"
    )

    batch = toy_batch()
    results = []
    for model in (ours, stock):
        model.double().train()
        scores = log_probs(model, batch)
        scores[batch["target"].ne(1)].logsumexp(0).sum().backward()
        results.append((scores, [p.grad for p in model.parameters()]))
    (scores, grads), (scores2, grads2) = results
    real = batch["target"].ne(1)
    torch.testing.assert_close(scores[real], scores2[real], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(grads, grads2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shared", ["share_all_embeddings", "share_decoder_input_output_embed"])
def test_adaptive_softmax_with_shared_tables_loads_its_checkpoints(shared):
    """On loading, fairseq adds an output projection, which a model with adaptive softmax lacks."""
    options = {"adaptive_softmax_cutoff": [4, 8], shared: True}
    model, other = build_ours(**options), build_ours(seed=2, **options)
    other.load_state_dict(model.state_dict())
    batch = toy_batch()
    for one in (model, other):
        one.eval()
    torch.testing.assert_close(log_probs(other, batch), log_probs(model, batch), rtol=0, atol=0)
    unknown = {"decoder.output_projection.weight": torch.zeros(16, 16)}
    with pytest.raises(RuntimeError, match="Unexpected key.*output_projection"):
        other.load_state_dict(model.state_dict() | unknown)


def test_parameters_that_stock_0_12_2_saves_twice_are_dropped():
    ours = build_ours()
    state = ours.state_dict()
    for name in ("in_proj_weight", "in_proj_bias", "out_proj_weight", "fc1_bias", "fc2_weight"):
        state[f"encoder.layers.0.{name}"] = torch.zeros(1)
    ours.load_state_dict(state, strict=True)


def test_alignment_equals_stock_at_evaluation_and_is_skipped_in_training():
    ours, stock = build_ours(), build_stock()
    batch = toy_batch()
    ours.eval(), stock.eval()
    real = batch["target"].ne(1)
    for choice in ({}, {"alignment_layer": 0, "alignment_heads": 1}):
        attn, attn2 = (m(**batch["net_input"], **choice)[1]["attn"][0] for m in (ours, stock))
        torch.testing.assert_close(attn[real], attn2[real])
    ours.train()
    assert ours(**batch["net_input"])[1]["attn"] == [None]


def test_every_layer_returns_head_states_with_masks():
    model = build_ours()
    batch = toy_batch()
    _, extra = model(**batch["net_input"], return_head_states=("outputs", "weights"))
    states = extra["head_states"]
    assert {name: len(layers) for name, layers in states.items()} == {
        "encoder": 2,
        "cross": 2,
        "decoder": 2,
    }
    source = batch["net_input"]["src_tokens"].eq(1)
    target = batch["target"].eq(1)
    for name, (queries, keys) in {
        "encoder": (source, source),
        "cross": (target, source),
        "decoder": (target, target),
    }.items():
        for record in states[name]:
            assert torch.equal(record.query_padding_mask, queries)
            assert torch.equal(record.key_padding_mask, keys)
            assert record.outputs.shape == (3, 4, queries.size(1), 4)
            assert record.weights.shape == (3, 4, queries.size(1), keys.size(1))
            assert record.values is None
    assert "head_states" not in model(**batch["net_input"])[1]


def test_beam_search_scores_equal_a_full_pass_and_stock():
    ours, stock = build_ours(), build_stock()
    ours.eval(), stock.eval()
    tokens, expected = (
        [[hypo["tokens"].tolist() for hypo in hypos] for hypos in beam_search(model, toy_batch())]
        for model in (ours, stock)
    )
    assert tokens == expected
    check_beam_scores(ours, toy_batch())


def test_activation_checkpointing_recomputes_in_the_same_precision():
    """Fairseq's backward pass runs outside autocast."""
    model = build_ours(checkpoint_activations=True).train()
    seen = []
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.fc1.register_forward_hook(lambda module, args, out: seen.append(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = model(**toy_batch()["net_input"])
    out.float().square().mean().backward()
    assert seen == [torch.bfloat16] * 8


def test_masks_are_finite_under_autocast_in_float16():
    """Autocast casts masks to float16, where a row without keys could become NaN."""
    attend, masks = torch.nn.functional.scaled_dot_product_attention, []

    def watched(q, k, v, attn_mask=None, **options):
        masks.append(attn_mask)
        assert attn_mask is None or attn_mask.dtype == q.dtype == torch.float16
        return attend(q, k, v, attn_mask=attn_mask, **options)

    batch = toy_batch()["net_input"]
    batch["prev_output_tokens"] = batch["prev_output_tokens"].flip(1)  # moves padding to the left
    with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", torch.float16):
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
        build_ours()(**batch)
    assert len(masks) == 6 and all(mask.isfinite().all() for mask in masks)


def test_a_decoder_without_cross_attention_has_no_cross_heads():
    model = build_ours(no_cross_attention=True).eval()
    batch = toy_batch()
    _, extra = model(**batch["net_input"], return_head_states=("outputs",))
    assert extra["attn"] == [None] and sorted(extra["head_states"]) == ["decoder", "encoder"]
    assert model.heads == {"encoder": 4, "decoder": 4}
    assert len(beam_search(model, batch)) == 3
    terms = DiversityTerms.from_config(
        DiversityConfig(disagreement="output", disagreement_on="cross")
    )
    with pytest.raises(ValueError, match="the model has no 'cross' attention"):
        terms.check_components(model.heads)


REFUSED = {
    "--quant-noise-pq 0.1": {"quant_noise_pq": 0.1},
    "--merge-src-tgt-embed: one table for two dict": {"merge_src_tgt_embed": True},
    "--encoder-attention-heads 3 does not divide --encoder-embed-dim 16; give a": {
        "encoder_attention_heads": 3
    },
    "--decoder-input-dim 12: .* no effect on translation; .* --decoder-embed-dim 16": {
        "decoder_input_dim": 12
    },
    "--decoder-output-dim 8: does not go with --share-all-embeddings; .* --decoder-embed-dim 16": {
        "decoder_output_dim": 8,
        "share_all_embeddings": True,
    },
    "--adaptive-softmax-cutoff 8,200: give increasing numbers from 1 to": {
        "adaptive_softmax_cutoff": "8,200"
    },
    "--adaptive-input has no effect on translation": {"adaptive_input": True},
    "--tie-adaptive-weights has no effect on translation; leave it out": {
        "adaptive_softmax_cutoff": "8,14",
        "tie_adaptive_weights": True,
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_options_are_refused(message):
    with pytest.raises(ValueError, match=message):
        build_ours(**REFUSED[message])


def test_sharing_embeddings_of_different_dictionaries_is_refused():
    task, cls = toy_task(), MODEL_REGISTRY["transformer_disagree"]
    task.target_dictionary = toy_dictionary(13)
    config = MODEL_DATACLASS_REGISTRY["transformer_disagree"](**SMALL, share_all_embeddings=True)
    with pytest.raises(ValueError, match="^--share-all-embeddings needs one dictionary .* leave"):
        cls.build_model(config, task)
