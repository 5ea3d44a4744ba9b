"""HSIC, orthogonality and Drophead together, as "all" of Yun et al. 2021."""

import pytest
import torch

from tests.criterions.test_terms import build_lm, criterion, lm_batch
from tests.toy import build_ours, toy_batch

TERMS = {"hsic_weight": 1e-3, "hsic_samples": 6, "orthogonality_weight": 0.1}
CASES = {
    "translation": ("label_smoothed_cross_entropy", build_ours, toy_batch),
    "translation-routing-cascade": (
        "label_smoothed_cross_entropy",
        lambda **options: build_ours("transformer_routing", logits="mlp", **options),
        toy_batch,
    ),
    "lm": ("cross_entropy", build_lm, lm_batch),
}


def all_on(case, **options):
    name, build, make_batch = CASES[case]
    return criterion(name, **TERMS), build(drophead=0.3, **options), make_batch()


@pytest.mark.integration
@pytest.mark.parametrize("case", CASES)
def test_training_lowers_the_whole_loss(case):
    term, model, batch = all_on(case)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    torch.manual_seed(0)
    for _ in range(40):
        loss, size, log = term(model, batch)
        assert {"term/hsic", "term/orthogonality", "term/orthogonality_cosine"} <= log.keys()
        optimizer.zero_grad()
        (loss / size).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(loss.item() / size)
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


@pytest.mark.parametrize("case", CASES)
def test_validation_draws_nothing(case):
    term, model, batch = all_on(case)
    term.eval(), model.eval()
    state = torch.get_rng_state()
    with torch.no_grad():
        first, _, log = term(model, batch)
        again, _, log2 = term(model, batch)
    assert torch.equal(first, again) and log.keys() == log2.keys()
    assert all(float(log[key]) == float(log2[key]) for key in log)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("case", CASES)
def test_activation_checkpoints_change_no_gradient(case):
    gradients = []
    for checkpointed in (False, True):
        term, model, batch = all_on(case, checkpoint_activations=checkpointed)
        model.train()
        torch.manual_seed(7)
        term(model, batch)[0].backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)


def test_the_same_seed_gives_the_same_step():
    def gradients():
        term, model, batch = all_on("translation")
        torch.manual_seed(11)
        term(model, batch)[0].backward()
        return [p.grad for p in model.parameters()]

    for first, again in zip(gradients(), gradients(), strict=True):
        assert torch.equal(first, again)


def test_the_fused_token_loss_takes_the_terms_along():
    losses = []
    for token_loss in ("stock", "fused"):
        model = build_ours(drophead=0.3).train()
        term = criterion(token_loss=token_loss, **TERMS)
        torch.manual_seed(2)
        loss, _, log = term(model, toy_batch())
        loss.backward()
        losses.append((loss.detach(), [p.grad for p in model.parameters()]))
    (stock, stock_grads), (fused, fused_grads) = losses
    torch.testing.assert_close(stock, fused)
    for first, second in zip(stock_grads, fused_grads, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)
