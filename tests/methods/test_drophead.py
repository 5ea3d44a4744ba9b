"""Drophead zeroes whole heads, scales the others, and acts in training only."""

import pytest
import torch

from diverse_mha.methods.drophead import SCALES, DropHeads, drop_heads
from diverse_mha.models.attention import DiverseAttention
from tests.models.test_language_model import TOKENS
from tests.models.test_language_model import build as build_lm
from tests.toy import build_ours, toy_batch

RATE = 0.3


def heads(bsz=400, num_heads=8):
    torch.manual_seed(0)
    # (B, H, T, D), a transposed view as in attention.
    return torch.rand(bsz, 3, num_heads, 2, dtype=torch.float64).transpose(1, 2) + 0.5


def test_heads_are_zeroed_whole_and_the_others_scaled_exactly():
    x = heads()
    dropped = drop_heads(x, RATE)
    zero = (dropped == 0).all(dim=3).all(dim=2)  # (B, H)
    assert torch.equal(zero, (dropped == 0).any(dim=3).any(dim=2))
    torch.testing.assert_close(dropped[~zero], x[~zero] / (1 - RATE), rtol=1e-12, atol=0)
    assert dropped.stride() == x.stride()  # heads can be merged without a copy


@pytest.mark.parametrize(("mask", "draws"), [("batch", 1), ("sentence", 50), ("token", 150)])
@pytest.mark.parametrize("scale", SCALES)
def test_a_mask_is_shared_by_a_batch_a_sentence_or_a_token(mask, draws, scale):
    x = heads(bsz=50)
    torch.manual_seed(1)
    dropped = drop_heads(x, RATE, mask=mask, scale=scale)
    zero = (dropped == 0).all(dim=3)  # (B, H, T)
    assert torch.equal(zero, (dropped == 0).any(dim=3))
    factor = 1 / (1 - RATE) if scale == "kept" else 1.0
    torch.testing.assert_close(dropped[~zero], x[~zero] * factor, rtol=1e-12, atol=0)
    # The random numbers are drawn for one tensor of the mask's shape.
    torch.manual_seed(1)
    kept = {"batch": (1, 8, 1), "sentence": (50, 8, 1), "token": (50, 8, 3)}[mask]
    expected = torch.empty(kept, dtype=x.dtype).bernoulli_(1 - RATE) == 0
    assert torch.equal(zero, expected.expand_as(zero))
    assert expected.numel() == 8 * draws


def test_heads_are_dropped_independently_at_the_rate():
    """The shares of dropped heads and of dropped pairs are within 5 standard deviations."""
    x = heads()
    zero = (drop_heads(x, RATE) == 0).all(dim=3).all(dim=2).double()  # (B, H)
    assert abs(zero.mean() - RATE) < 5 * (RATE * (1 - RATE) / zero.numel()) ** 0.5
    both = (zero[:, :4] * zero[:, 4:]).mean()  # heads of one sentence
    neighbours = (zero[:200] * zero[200:]).mean()  # one head of two sentences
    for share, count in ((both, 1600), (neighbours, 1600)):
        assert abs(share - RATE**2) < 5 * (RATE**2 * (1 - RATE**2) / count) ** 0.5


def test_only_kept_heads_get_a_gradient():
    x = heads().requires_grad_()
    dropped = drop_heads(x, RATE)
    dropped.sum().backward()
    expected = (dropped != 0).double() / (1 - RATE)
    torch.testing.assert_close(x.grad, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    "wanted", [("outputs",), ("outputs", "weights")], ids=["fused", "explicit"]
)
def test_heads_are_dropped_before_aggregation_and_after_recording(wanted):
    torch.manual_seed(0)
    plain = DiverseAttention(16, 4, self_attention=True)
    ours = DiverseAttention(16, 4, self_attention=True, drophead=DropHeads(RATE))
    ours.load_state_dict(plain.state_dict())
    x = torch.randn(2, 5, 16)
    torch.manual_seed(3)
    attended = ours(x, None, wanted=wanted)
    outputs = plain(x, None, wanted=wanted).states.outputs
    assert torch.equal(attended.states.outputs, outputs)
    torch.manual_seed(3)
    dropped = drop_heads(outputs, RATE)
    assert (dropped == 0).any() and (dropped != 0).any()
    expected = plain.out_proj(dropped.transpose(1, 2).flatten(2))
    torch.testing.assert_close(attended.output, expected)


PAIRS = toy_batch()["net_input"]
MODELS = {
    "translation": (build_ours, {}, PAIRS),
    "routing": (build_ours, {"arch": "transformer_routing"}, PAIRS),
    "coda": (build_ours, {"arch": "transformer_coda", "attention_noise": 0.0}, PAIRS),
    "lm": (build_lm, {}, {"src_tokens": TOKENS}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_module_of_a_model_drops_in_training_and_not_at_evaluation(name):
    build, options, batch = MODELS[name]
    plain, ours = build(**options), build(**options, drophead=RATE)
    assert plain.state_dict().keys() == ours.state_dict().keys()
    ours.load_state_dict(plain.state_dict())
    modules = [m for m in ours.modules() if isinstance(m, DiverseAttention)]
    assert [m.drophead.rate for m in modules] == [RATE] * (2 if name == "lm" else 6)
    reference = plain.train()(**batch)[0]
    assert not torch.equal(ours.train()(**batch)[0], reference)
    state = torch.get_rng_state()
    assert torch.equal(ours.eval()(**batch)[0], plain.eval()(**batch)[0])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize("build", [build_ours, build_lm])
def test_impossible_rates_are_refused(build, rate):
    with pytest.raises(ValueError, match=f"--drophead {rate}: must be at least 0 and below 1"):
        build(drophead=rate)
    with pytest.raises(ValueError, match=f"rate is {rate}; expected at least 0"):
        DropHeads(rate)


@pytest.mark.parametrize("option", [{"drophead_mask": "batch"}, {"drophead_scale": "none"}])
def test_a_mask_or_scale_without_a_rate_is_refused(option):
    """With a rate, every attention module gets the option."""
    with pytest.raises(ValueError, match="has no effect with --drophead 0; give a rate above 0"):
        build_ours(**option)
    with pytest.raises(ValueError, match="mask is 'word'; expected one of"):
        DropHeads(RATE, mask="word")
    ((name, value),) = option.items()
    dropped = [
        m.drophead
        for m in build_ours(**option, drophead=RATE).modules()
        if isinstance(m, DiverseAttention)
    ]
    assert {getattr(d, name.removeprefix("drophead_")) for d in dropped} == {value}
