"""Schedules of the weight of terms."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.tasks.translation import TranslationTask

from diverse_mha.methods.diversity import Schedule
from tests.criterions.test_terms import criterion
from tests.toy import build_ours, toy_batch

HSIC = {"hsic_weight": 0.3}
TRAPEZOID = {"diversity_start": 2, "diversity_warmup_updates": 4, "diversity_end": 10}


def test_the_factor_rises_and_falls_with_the_schedule():
    """The factor is 0 for two updates, rises for four, falls for four, and is 0 again."""
    schedule = Schedule(**TRAPEZOID)
    factors = [schedule.factor(n) for n in range(12)]
    assert factors == [0, 0, 0.25, 0.5, 0.75, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    assert [Schedule(2).factor(n) for n in range(4)] == [0, 0, 1, 1]
    assert [Schedule(0, 2).factor(n) for n in range(4)] == [0.5, 1, 1, 1]
    assert [Schedule(0, 0, 4).factor(n) for n in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]
    assert not Schedule() and Schedule().factor(0) == 1


def loss_and_log(model, num_updates=None, **options):
    if num_updates is not None:
        model.set_num_updates(num_updates)
    loss, size, log = criterion(**options)(model, toy_batch())
    return loss.detach() / size, {key: float(value) / size for key, value in log.items()}


@pytest.mark.parametrize("num_updates,factor", [(2, 0.25), (5, 1.0), (8, 0.5)])
def test_terms_are_weighted_by_the_factor(num_updates, factor):
    model = build_ours().double()
    plain, _ = loss_and_log(model)
    full, everything = loss_and_log(model, **HSIC)
    part, log = loss_and_log(model, num_updates, **HSIC, **TRAPEZOID)
    torch.testing.assert_close(part - plain, factor * (full - plain), rtol=1e-6, atol=0)
    assert log["term/hsic"] == everything["term/hsic"]  # the term is logged without the factor
    # The loss of the terms is logged in bits, as the token loss is.
    bits = float(part - plain) / torch.log(torch.tensor(2.0)).item()
    assert log["term/diversity_loss"] == pytest.approx(bits, rel=1e-6)


@pytest.mark.parametrize("num_updates", [0, 1, 10, 11])
def test_a_term_with_factor_0_is_not_computed(num_updates):
    """No head states are requested, and the loss is exactly the token loss."""
    model = build_ours()
    plain, plain_log = loss_and_log(model)
    asked = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: asked.append(kwargs.get("return_head_states")),
        with_kwargs=True,
    )
    loss, log = loss_and_log(model, num_updates, **HSIC, **TRAPEZOID)
    assert torch.equal(loss, plain) and log == plain_log and asked == [None]


def test_validation_always_logs_terms():
    model = build_ours().eval()
    model.set_num_updates(0)
    scheduled, constant = (criterion(**HSIC, **o).eval() for o in (TRAPEZOID, {}))
    with torch.no_grad():
        log, expected = scheduled(model, toy_batch())[2], constant(model, toy_batch())[2]
    assert log == expected and "term/hsic" in log


def test_the_schedule_follows_the_updates_of_fairseqs_own_task():
    """The schedule uses the update number that the stock task gets for a training step."""
    model, batch = build_ours(), toy_batch()
    task = SimpleNamespace()
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    for number, factor in ((3, 0.75), (9, 1.0)):
        scheduled = criterion(**HSIC, diversity_warmup_updates=4, diversity_start=1)
        *_, log = TranslationTask.train_step(task, batch, model, scheduled, optimizer, number)
        constant = criterion(**HSIC)(model, batch)[2]["term/diversity_loss"]
        assert float(log["term/diversity_loss"]) == pytest.approx(factor * float(constant))
