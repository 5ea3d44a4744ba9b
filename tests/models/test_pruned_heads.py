"""Models without their pruned heads have the outputs of models with zeroed heads."""

import pytest
import torch

from diverse_mha.attention.sites import Head
from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.models import Loaded
from diverse_mha.evaluation.pruned import smaller, zero_head
from diverse_mha.models.pruned_heads import keep_heads, pruned_text, read_pruned, spread_heads
from tests.criterions import test_terms as terms
from tests.models import test_language_model as lm
from tests.recipes import recipe
from tests.toy import build_ours, log_probs, step_by_step, toy_batch

EXACT = {"rtol": 0, "atol": 1e-10}
GONE = [
    ("encoder", 1, 3), ("encoder", 2, 1), ("encoder", 2, 2), ("encoder", 2, 4),
    ("cross", 1, 1), ("cross", 2, 2), ("decoder", 1, 2), ("decoder", 1, 4),
]  # fmt: skip
OPTION = "encoder 1.3 2.1 2.2 2.4, cross 1.1 2.2, decoder 1.2 1.4"
METHODS = {
    "plain": {},
    "noise and drophead": {"attention_noise": 1.0, "drophead": 0.5, "attention_samples": 0},
    "sink": {"logits": "sink"},
    "qk-norm": {"projections": "qk-norm"},
    "knocking heads": {"projections": "knocking-heads"},
    **{
        method: {
            "aggregation": method,
            "aggregation_encoder_layers": "1,2",
            "aggregation_decoder_layers": "all",
        }
        for method in ("headwise-gate", "elementwise-gate", "exclusive")
    },
}


def pair(build=build_ours, gone=GONE, option=OPTION, **options):
    """Return a model with zeroed heads and a model without these heads, in float64.

    The value projections of zeroed heads are huge, to detect outputs that depend on them.
    """
    whole = build(**options).double().eval()
    for parameter in whole.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    small = build(**options, pruned_heads=option).double().eval()
    heads = [Head(*head) for head in gone]
    state = smaller(Loaded("x.pt", "ours", [whole], None), heads, {})
    small.load_state_dict(state)
    for head in heads:
        zero_head(whole, head)
        side = whole.encoder if head.component == "encoder" else whole.decoder
        layer = side.layers[head.layer - 1]
        attention = layer.encoder_attn if head.component == "cross" else layer.self_attn
        with torch.no_grad():
            attention.v_proj.weight.view(4, 4, -1)[head.head - 1] = 1e6
    return whole, small


@pytest.mark.parametrize("method", METHODS)
def test_outputs_equal_those_of_zeroed_heads_with_huge_values(method):
    whole, small = pair(**METHODS[method])
    batch = toy_batch()
    real = batch["target"].ne(1)
    for run in (log_probs, step_by_step):
        torch.testing.assert_close(run(small, batch)[real], run(whole, batch)[real], **EXACT)
    names = ("queries", "weights", "outputs")
    states = [m(**batch["net_input"], return_head_states=names)[1] for m in (whole, small)]
    for component, layer, kept in (("encoder", 1, [2]), ("cross", 0, [1, 2, 3])):
        full, left = (x["head_states"][component][layer] for x in states)
        torch.testing.assert_close(left.weights, full.weights[:, kept], **EXACT)
    sizes = [sum(p.numel() for p in m.parameters()) for m in (whole, small)]
    assert sizes[0] - sizes[1] >= 8 * (4 * 16 * 4 + 3 * 4), (
        "the small model lacks the q, k, v and output weights of the pruned heads"
    )


def test_alignments_are_means_over_the_remaining_heads():
    _, small = pair()
    batch = toy_batch()
    extra = small(**batch["net_input"], return_head_states=("weights",))[1]
    weights = extra["head_states"]["cross"][1].weights
    assert weights.size(1) == 3
    torch.testing.assert_close(extra["attn"][0], weights.mean(dim=1), **EXACT)


def test_heads_of_language_models_can_be_removed():
    gone, option = [("decoder", 1, 1), ("decoder", 2, 3), ("decoder", 2, 4)], "decoder 1.1 2.3 2.4"
    whole, small = pair(lm.build, gone, option)
    torch.testing.assert_close(small(lm.TOKENS)[0], whole(lm.TOKENS)[0], **EXACT)


def test_initial_values_are_those_of_the_full_model():
    whole, small = build_ours(), build_ours(pruned_heads="encoder 1.3")
    for name, value in small.state_dict().items():
        full = whole.state_dict()[name]
        if value.shape != full.shape:
            full = keep_heads(full, int("out_proj.weight" in name), (1, 2, 4), 4)
        assert torch.equal(value, full), name


@pytest.mark.parametrize("options", terms.OPTIONS.values(), ids=terms.OPTIONS)
def test_terms_accept_layers_with_different_numbers_of_heads(options):
    model = build_ours(pruned_heads=OPTION).train()
    loss, _, _, grads = terms.run(terms.criterion(**options), model, toy_batch())
    assert loss.isfinite() and all(grad.isfinite().all() for grad in grads)


def test_parameters_of_heads_are_removed_and_restored_as_zeros():
    x = torch.arange(24.0).view(2, 12)
    cut = keep_heads(x, 1, (1, 3), 4)
    assert cut.tolist() == [[0, 1, 2, 6, 7, 8], [12, 13, 14, 18, 19, 20]]
    back = spread_heads(cut, 1, (1, 3), 4)
    assert back[:, :3].equal(x[:, :3]) and back[:, 6:9].equal(x[:, 6:9])
    assert not back[:, 3:6].any() and not back[:, 9:].any()


def test_the_pruned_heads_option_round_trips():
    shapes = {"encoder": (2, 4), "cross": (2, 4), "decoder": (2, 12)}
    assert read_pruned(None, shapes) == {}
    pruned = read_pruned(" encoder 2.4 1.3  2.1 , decoder 1.10", shapes)
    assert pruned == {("encoder", 1): (3,), ("encoder", 2): (1, 4), ("decoder", 1): (10,)}
    assert pruned_text(GONE) == OPTION
    gone = [
        (*module, head) for module, heads in read_pruned(OPTION, shapes).items() for head in heads
    ]
    assert gone == GONE


def test_a_recipe_accepts_pruned_heads():
    config = recipe("demo", f"++model.pruned_heads='{OPTION}'")
    assert config.model.pruned_heads == OPTION


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pruned_heads": "encoder 3.1"}, "no head '3.1'; it has 2 layers of 4 heads; give LAYER"),
        ({"pruned_heads": f"encoder 1.{'9' * 5000}"}, "the encoder has no head"),
        ({"pruned_heads": "cross 1.5"}, "the cross has no head '1.5'"),
        ({"pruned_heads": "encoder 1"}, "the encoder has no head '1'"),
        ({"pruned_heads": "decoder"}, "the decoder has no head ''"),
        ({"pruned_heads": ""}, "no component ''; choose from encoder, cross, decoder"),
        ({"pruned_heads": "1.1"}, "no component '1.1'"),
        ({"pruned_heads": "encoder 1.1 1.2 1.3 1.4"}, "no head is left in encoder layer 1"),
        (
            {"pruned_heads": "encoder 2.1", "logits": "residual"},
            "--logits residual ties heads of encoder layer 2 to others; leave one of the two out",
        ),
        (
            {"pruned_heads": "cross 2.1", "logits": "talking-heads", "logits_on": "cross"},
            "--logits talking-heads ties heads of cross layer 2",
        ),
        (
            {"pruned_heads": "encoder 1.1", "projections": "value-residual"},
            "--projections value-residual ties",
        ),
        (
            {
                "pruned_heads": "encoder 1.1",
                "aggregation": "em-routing",
                "aggregation_encoder_layers": "1",
            },
            "--aggregation em-routing ties",
        ),
    ],
)
def test_impossible_heads_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_ours(**options)
    with pytest.raises(UserError, match="no component 'cross'; choose from decoder"):
        lm.build(pruned_heads="cross 1.1")


def test_heads_may_be_pruned_if_the_tying_method_is_in_other_modules():
    build_ours(pruned_heads="encoder 1.1", logits="talking-heads", logits_on="cross")
    options = {"aggregation": "em-routing", "aggregation_encoder_layers": "1"}
    build_ours(pruned_heads="encoder 2.1", **options)
