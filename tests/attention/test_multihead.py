"""Our drop-in replacement of ``torch.nn.MultiheadAttention`` equals torch's module."""

import io

import pytest
import torch
from torch import nn

from diverse_mha.attention import STATE_NAMES, HeadStates, MultiheadAttention, check_state_names
from diverse_mha.methods.coda import build_cascade
from diverse_mha.methods.drophead import DropHeads
from diverse_mha.methods.exclusive import Exclusive
from diverse_mha.methods.routing import RoutingAggregation
from diverse_mha.methods.value_residual import ValueResidual

B, T, S, C, H = 3, 4, 6, 16, 4
CAUSAL = torch.ones(T, S, dtype=torch.bool).triu(1)
SOFT = torch.linspace(-3, 1, T * S, dtype=torch.float64).view(
    T, S
)  # an additive bias, for example of relative positions

MODULES = {
    "plain": {},
    "no bias": {"bias": False},
    "kdim and vdim": {"kdim": 10, "vdim": 12},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True, "add_bias_kv": True},
}
MASKS = {
    "none": {},
    "padding": {"key_padding_mask": torch.arange(S)[None] >= torch.tensor([6, 3, 5])[:, None]},
    "float padding": {"key_padding_mask": SOFT[:3].clone()},
    "causal": {"attn_mask": CAUSAL, "is_causal": True},
    "float": {"attn_mask": SOFT.masked_fill(CAUSAL, float("-inf"))},
    "by head": {"attn_mask": SOFT.expand(B * H, T, S) * torch.arange(B * H)[:, None, None]},
}
MASKS["both"] = {**MASKS["padding"], "attn_mask": CAUSAL}


def pair(batch_first=True, **options):
    torch.manual_seed(0)
    stock = nn.MultiheadAttention(C, H, batch_first=batch_first, dtype=torch.float64, **options)
    torch.manual_seed(0)
    ours = MultiheadAttention(C, H, batch_first=batch_first, dtype=torch.float64, **options)
    return ours, stock


def inputs(batch_first=True, **options):
    generator = torch.Generator().manual_seed(1)
    shapes = (T, C), (S, options.get("kdim", C)), (S, options.get("vdim", C))
    xs = [torch.randn(B, *s, dtype=torch.float64, generator=generator) for s in shapes]
    return [(x if batch_first else x.transpose(0, 1)).detach().requires_grad_() for x in xs]


@pytest.mark.parametrize("weights", ["none", "mean", "heads"])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", MODULES)
def test_outputs_and_gradients_equal_torchs(options, masks, weights):
    options = MODULES[options]
    batch_first = masks != "padding"  # one mask tests inputs with time first
    modules = pair(batch_first, **options)
    call = {**MASKS[masks], "need_weights": weights != "none"}
    call["average_attn_weights"] = weights == "mean"
    if options.get("add_bias_kv") and weights == "none":
        call.pop("is_causal", None)  # torch would mask the learnt keys, which are appended
    results = []
    for module in modules:
        xs = inputs(batch_first, **options)
        output, returned = module(*xs, **call)
        gradients = torch.autograd.grad(output.cos().sum(), [*xs, *module.parameters()])
        results.append((output, returned, *gradients))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", MODULES)
def test_state_dicts_are_interchangeable_with_torchs(options):
    ours, stock = pair(**MODULES[options])
    start, other = ours.state_dict(), stock.state_dict()
    assert list(start) == list(other)
    assert all(torch.equal(start[name], other[name]) for name in start), (
        "the same seed gives the same initial values"
    )
    for module in (ours, stock):
        torch.manual_seed(2)
        module._reset_parameters()
    assert all(torch.equal(start[name], other[name]) for name in start), (
        "a reset with the same seed gives the same values"
    )
    for p in stock.parameters():
        nn.init.normal_(p)
    ours.load_state_dict(stock.state_dict(), strict=True)
    stock.load_state_dict(ours.state_dict(), strict=True)
    xs = inputs(**MODULES[options])
    torch.testing.assert_close(ours(*xs)[0], stock(*xs)[0])


def test_reset_parameters_keeps_the_parameters_of_an_aggregation():
    module = MultiheadAttention(C, H, aggregation=RoutingAggregation(C, H))
    kept = {name: p.clone() for name, p in module.out_proj.named_parameters()}
    module._reset_parameters()
    assert kept and all(torch.equal(p, kept[n]) for n, p in module.out_proj.named_parameters())


def test_an_empty_batch_gives_an_empty_output():
    ours, stock = pair()
    none = [x[:0] for x in inputs()]
    torch.testing.assert_close(ours(*none), stock(*none))


def test_inputs_without_a_batch_dimension_are_accepted():
    ours, stock = pair(batch_first=False)
    xs = [x[:, 0] for x in inputs(batch_first=False)]
    for average in (True, False):
        torch.testing.assert_close(
            ours(*xs, average_attn_weights=average), stock(*xs, average_attn_weights=average)
        )


@pytest.mark.parametrize("seam", ["none", "cascade", "aggregation"])
def test_torchs_encoder_layer_calls_our_attention_at_evaluation(seam):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(C, H, 24, dropout=0.0, batch_first=True).eval()
    parts = {
        "none": {},
        "cascade": {"logit_map": build_cascade("residual", H), "carry_logits": True},
        "aggregation": {"aggregation": RoutingAggregation(C, H)},
    }[seam]
    ours = MultiheadAttention(C, H, batch_first=True, **parts).eval()
    ours.load_state_dict(layer.self_attn.state_dict(), strict=seam != "aggregation")
    x = torch.randn(B, T, C)
    expected = layer(x)
    called = []
    layer.self_attn = ours
    original = ours.attend
    ours.attend = lambda *args, **options: called.append(1) or original(*args, **options)
    with torch.no_grad():
        result = layer(x)
    assert called
    if seam != "aggregation":
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("options", MODULES)
def test_exclusive_attention_takes_the_values_of_the_queries_positions(options):
    module = MultiheadAttention(
        C, H, batch_first=True, dtype=torch.float64, aggregation=Exclusive(C, H), **MODULES[options]
    ).double()
    _, *sources = inputs(**MODULES[options])
    query = sources[0] if sources[0].size(2) == C else torch.randn(B, S, C, dtype=torch.float64)
    attended = module.attend(query, *sources, wanted=("outputs", "values"))
    y, v = attended.states.outputs, attended.states.values
    v = v[:, :, :S]  # learnt and zero keys are appended
    z = y - (y * v).sum(-1, keepdim=True) * v / v.square().sum(-1, keepdim=True)
    expected = z.transpose(1, 2).flatten(2) @ module.out_proj.weight.T + module.out_proj.bias
    torch.testing.assert_close(attended.output, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="query has 4 positions and key 6, but Exclusive takes"):
        module(query[:, :T], *sources)


@pytest.mark.parametrize("wanted", ["outputs", ("output",)])
def test_unknown_states_are_reported(wanted):
    with pytest.raises(ValueError, match="head states: unknown 'o"):
        MultiheadAttention(C, H).attend(*inputs(), wanted=wanted)


def test_projections_that_need_layer_1_are_refused():
    with pytest.raises(ValueError, match="ValueResidual adds the values of layer 1.*in a model"):
        MultiheadAttention(8, 2, projections=ValueResidual())


def test_nested_tensors_are_refused():
    layer = nn.TransformerEncoderLayer(C, H, 24, batch_first=True)
    for nested in (True, False):
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        for each in encoder.layers:
            each.self_attn = MultiheadAttention(C, H, batch_first=True)
        encoder.eval()
        padding = torch.zeros(B, T, dtype=torch.bool)
        padding[0, -1] = True
        with torch.no_grad():
            if not nested:
                assert encoder(torch.randn(B, T, C), src_key_padding_mask=padding).isfinite().all()
                continue
            with pytest.raises(ValueError, match="enable_nested_tensor=False"):
                encoder(torch.randn(B, T, C), src_key_padding_mask=padding)


def test_two_layers_return_states_and_pass_logits_on():
    torch.manual_seed(0)
    parts = {"logit_map": build_cascade("residual", H), "carry_logits": True}
    first = MultiheadAttention(C, H, batch_first=True, carry_logits=True).double()
    second = MultiheadAttention(C, H, batch_first=True, **parts).double()
    x = inputs()[0]
    below = first.attend(x, x, x, attn_mask=CAUSAL[:, :T], wanted=STATE_NAMES)
    above = second.attend(
        x, x, x, attn_mask=CAUSAL[:, :T], previous_logits=below.logits, wanted=STATE_NAMES
    )
    s = below.states
    assert s.outputs.shape == (B, H, T, C // H) and s.weights.shape == (B, H, T, T)
    own = s.queries @ s.keys.transpose(2, 3) / (C // H) ** 0.5
    torch.testing.assert_close(s.logits, own)
    s = above.states
    own = s.queries @ s.keys.transpose(2, 3) / (C // H) ** 0.5
    visible = ~CAUSAL[:, :T]
    torch.testing.assert_close(s.logits[..., visible], (own + below.logits)[..., visible])
    weights = s.logits.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    torch.testing.assert_close(s.weights, weights)
    torch.testing.assert_close(s.outputs, weights @ s.values)


def test_the_last_layer_uses_passed_logits_at_evaluation():
    """A layer that passes no logits on must still apply its cascade."""
    module = MultiheadAttention(
        C, H, batch_first=True, logit_map=build_cascade("residual", H)
    ).eval()
    x = inputs()[0].float()
    previous = torch.randn(B, H, T, T, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        expected = module.attend(x, x, x, previous_logits=previous, wanted=("weights",)).output
        result = module.attend(x, x, x, previous_logits=previous).output
        torch.testing.assert_close(result, expected)


def test_a_cascade_does_not_treat_a_soft_bias_as_a_mask():
    module = MultiheadAttention(C, H, batch_first=True, logit_map=build_cascade("residual", H))
    x = inputs()[0].float()
    soft = module.attend(x, x, x, attn_mask=-torch.ones(T, T), wanted=("logits",))
    assert soft.states.logits.count_nonzero() == B * H * T * T


@pytest.mark.parametrize("kind", ["none", "residual", "mlp"])
@pytest.mark.parametrize("additive", [False, True])
def test_samples_are_averaged_with_a_mask_for_each_head(kind, additive):
    """Negligible noise makes every sample the mean; a large one still leaves masked cells at 0."""
    mask = torch.rand(B * H, T, T, generator=torch.Generator().manual_seed(5)) < 0.4
    mask.diagonal(dim1=1, dim2=2).fill_(False)
    hidden = mask.unflatten(0, (B, H))
    given = torch.zeros(mask.shape).double().masked_fill(mask, float("-inf")) if additive else mask
    x, found = inputs()[0], []
    previous = torch.randn(B, H, T, T, generator=torch.Generator().manual_seed(4)).double()
    previous = None if kind == "none" else previous
    for samples, noise in ((0, 1e-12), (3, 1e-12), (3, 5.0)):
        torch.manual_seed(0)
        cascade = build_cascade(kind, H, noise=noise, samples=samples)
        module = MultiheadAttention(C, H, batch_first=True, logit_map=cascade).double().eval()
        passed = previous if previous is None or not samples else previous.repeat(1, samples, 1, 1)
        wanted = ("weights", "outputs")
        found.append(
            module.attend(x, x, x, attn_mask=given, previous_logits=passed, wanted=wanted).states
        )
        assert (found[-1].weights[hidden] == 0).all()
    torch.testing.assert_close(found[0], found[1])
    assert not torch.allclose(found[1].weights, found[2].weights)


def test_two_masks_that_hide_all_keys_give_finite_outputs_in_half_precision():
    module = MultiheadAttention(C, H, batch_first=True).half()
    x = torch.randn(B, T, C).half()
    nothing = torch.ones(T, T, dtype=torch.bool)
    options = {"attn_mask": nothing, "key_padding_mask": torch.ones(B, T, dtype=torch.bool)}
    for negative in (-1, 1):  # large positive or negative logits
        with torch.no_grad():
            module.in_proj_bias[: 2 * C] = 20.0
            module.in_proj_bias[:C] *= negative
        assert module(x, x, x, **options)[0].isfinite().all()


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"drophead": DropHeads(0.5)}], ids=str)
def test_dropout_and_drophead_act_in_training_only(options):
    module = MultiheadAttention(C, H, batch_first=True, **options)
    module.double()
    xs = inputs()
    assert not torch.equal(module(*xs)[0], module(*xs)[0])
    module.eval()
    assert torch.equal(module(*xs)[0], module(*xs)[0])


def test_plain_attention_can_be_traced_and_saved():
    module = MultiheadAttention(C, H, batch_first=True).eval()
    x = torch.randn(B, T, C)
    torch.jit.save(traced := torch.jit.trace(module, (x, x, x)), io.BytesIO())
    torch.testing.assert_close(traced(x, x, x)[0], module(x, x, x)[0])


def test_invalid_arguments_are_reported():
    with pytest.raises(ValueError, match="num_heads 3 does not divide embed_dim 16"):
        MultiheadAttention(16, 3)
    with pytest.raises(ValueError, match="is_causal=True is only a hint about attn_mask"):
        pair()[0](*inputs(), is_causal=True)
    with pytest.raises(ValueError, match="previous_logits needs a cascade"):
        pair()[0].attend(*inputs(), previous_logits=torch.zeros(B, H, T, S))


def test_a_record_gives_required_states_or_names_the_one_that_it_lacks():
    states = HeadStates(outputs=torch.zeros(B, H, T, C // H))
    assert states.required("outputs") is states.outputs
    with pytest.raises(ValueError, match="values"):
        states.required("values")


def test_names_of_a_component_are_no_mapping_of_components():
    with pytest.raises(ValueError, match="unknown 'decoder'"):
        check_state_names({"encoder": {"decoder": ("outputs",)}})
