"""Scheduled DropHead: its scale beside a slow oracle, its rate by hand, and its place in models."""

import pytest
import torch

from diverse_mha.methods.drophead import ScheduledDropHeads
from tests.toy import build_ours, log_probs, toy_batch

SCHEDULED = {"drophead_method": "scheduled", "drophead": 0.4}


def heads(bsz=400, num_heads=5):
    torch.manual_seed(0)
    return torch.rand(bsz, num_heads, 3, 2, dtype=torch.float64) + 0.5


def slow(outputs, dropped):
    """Zhou et al. 2020 sentence by sentence: zero, then multiply by H over the heads kept."""
    result = outputs.clone()
    for sentence, zero in zip(result, dropped, strict=True):
        kept = sum(not z for z in zero.tolist())
        for head, z in zip(sentence, zero.tolist(), strict=True):
            head.mul_(0 if z else len(zero) / kept)
    return result


def test_kept_heads_are_scaled_by_those_of_the_sentence():
    x = heads()
    result = ScheduledDropHeads(0.4)(x)
    dropped = (result == 0).all(dim=3).all(dim=2)  # (B, H)
    torch.testing.assert_close(result, slow(x, dropped), rtol=1e-12, atol=0)
    assert len(dropped.sum(dim=1).unique()) > 3
    # 2000 draws: the standard deviation of the mean is 0.011.
    assert abs(dropped.double().mean() - 0.4) < 0.05


def test_a_sentence_without_heads_is_zero_and_has_a_gradient():
    x = heads(bsz=50, num_heads=2).requires_grad_()
    result = ScheduledDropHeads(0.9)(x)
    result.sum().backward()
    assert (result == 0).flatten(1).all(dim=1).any() and x.grad.isfinite().all()


def test_gradients_are_right():
    module = ScheduledDropHeads(0.5)

    def call(x):
        torch.manual_seed(4)
        return module(x)

    assert torch.autograd.gradcheck(call, heads(bsz=4).requires_grad_())


def test_the_rate_is_a_v():
    module = ScheduledDropHeads(0.4, fall=4, rise=2)
    rates = []
    for update in range(8):
        module.set_num_updates(update)
        rates.append(float(module.rate))
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0, 0.2, 0.4, 0.4])
    module.set_num_updates(4)
    x = heads()
    assert torch.equal(module(x), x)  # nothing is dropped at the bottom, and nothing scaled


def test_without_lengths_the_rate_stays():
    module = ScheduledDropHeads(0.25)
    module.set_num_updates(1000)
    assert float(module.rate) == 0.25


def test_a_model_tells_its_modules_the_update_and_saves_nothing_of_them():
    model = build_ours(**SCHEDULED, drophead_fall_updates=10).train()
    assert model.state_dict().keys() == build_ours().state_dict().keys()
    model.set_num_updates(5)
    rates = [float(m.rate) for m in model.modules() if isinstance(m, ScheduledDropHeads)]
    assert rates == pytest.approx([0.2] * 6)
    batch = toy_batch()["net_input"]
    assert not torch.equal(model(**batch)[0], model(**batch)[0])


def test_evaluation_is_that_without():
    ours, plain = build_ours(**SCHEDULED).eval(), build_ours().eval()
    assert torch.equal(log_probs(ours, toy_batch()), log_probs(plain, toy_batch()))


def test_what_has_no_effect_is_refused():
    with pytest.raises(ValueError, match="--drophead-method scheduled has no effect with --drophe"):
        build_ours(drophead_method="scheduled")
    with pytest.raises(ValueError, match="--drophead-fall-updates 3 has no effect with --drophead"):
        build_ours(drophead=0.1, drophead_fall_updates=3)
    with pytest.raises(ValueError, match="--drophead-rise-updates -1: must be 0 or more"):
        build_ours(**SCHEDULED, drophead_rise_updates=-1)
    with pytest.raises(ValueError, match="rate is 1.0; expected at least 0 and below 1"):
        ScheduledDropHeads(1.0)
