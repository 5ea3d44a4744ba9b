"""Which share of the gradient the terms have, and that looking changes nothing."""

import pytest
import torch
from torch import nn

from diverse_mha.criterions.gradient_share import gradient_shares
from tests.criterions.test_terms import criterion
from tests.toy import build_ours, toy_batch

TERMS = {"disagreement": "output", "hsic_weight": 1e-3, "orthogonality_weight": 0.1}
PREFIX = "term/gradient_share_"


def test_shares_by_hand():
    """Gradients (3, 4), (0, 10) and none: norms 5, 10 and 0."""
    model = nn.Linear(2, 1, bias=False)
    row = model.weight[0]
    losses = {"a": 3 * row[0] + 4 * row[1], "b": 10 * row[1], "none": 0.0}
    shares = gradient_shares(losses, model)
    assert {name: float(share) for name, share in shares.items()} == pytest.approx(
        {"a": 1 / 3, "b": 2 / 3, "none": 0.0}
    )
    model.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    assert gradient_shares(losses, model) == shares
    assert model.weight.grad is None
    assert float(gradient_shares({"none": 0.0}, model)["none"]) == 0.0


def norm(model, loss):
    model.zero_grad()
    loss.backward(retain_graph=True)
    return float(
        torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    )


def test_shares_are_those_of_separate_backward_passes():
    model, batch = build_ours(), toy_batch()
    model.set_num_updates(0)
    _, size, log = criterion(**TERMS, log_gradient_share=1)(model, batch)
    token_loss = criterion()(model, batch)[0] / size
    norms = {"token loss": norm(model, token_loss)}
    alone = {
        "disagreement_output": {"disagreement": "output"},
        "hsic": {"hsic_weight": 1e-3},
        "orthogonality": {"orthogonality_weight": 0.1, "orthogonality_cosine_projections": "none"},
    }
    for name, options in alone.items():
        norms[name] = norm(model, criterion(**options)(model, batch)[0] / size - token_loss)
    found = {k.removeprefix(PREFIX): float(v) / size for k, v in log.items() if PREFIX in k}
    assert found.keys() == alone.keys() | {"orthogonality_cosine"}
    # The cosine part is not to be had alone; what it leaves is shared out by the norms.
    rest = 1 - found["orthogonality_cosine"]
    for name in alone:
        assert found[name] == pytest.approx(rest * norms[name] / sum(norms.values()), rel=1e-4)


MODELS = {
    "plain": {},
    "routing": {"aggregation": "em-routing", "aggregation_encoder_layers": "all"},
    "simple": {"aggregation": "simple-routing", "aggregation_cross_layers": "all"},
    "cascade": {"logits": "mlp", "attention_noise": 0.5, "drophead": 0.1},
}


@pytest.mark.parametrize("token_loss", ["stock", "fused"])
@pytest.mark.parametrize("name", MODELS)
def test_measuring_changes_no_gradient(name, token_loss):
    results = []
    for every in (0, 1):
        model = build_ours(**MODELS[name])
        model.set_num_updates(0)
        torch.manual_seed(0)
        term = criterion(**TERMS, token_loss=token_loss, log_gradient_share=every)
        loss, _, log = term(model, toy_batch())
        assert all(p.grad is None for p in model.parameters())
        loss.backward()
        results.append([p.grad for p in model.parameters() if p.grad is not None])
        assert any(key.startswith(PREFIX) for key in log) == bool(every)
    assert all(map(torch.equal, *results)) and len(results[0]) == len(results[1])


def test_it_is_measured_every_so_many_updates_of_training():
    model, batch = build_ours(), toy_batch()
    term = criterion(**TERMS, log_gradient_share=3)
    measured = []
    for number in range(7):
        model.set_num_updates(number)
        measured.append(any(key.startswith(PREFIX) for key in term(model, batch)[2]))
    assert measured == [True, False, False, True, False, False, True]
    with torch.no_grad():
        log = term.eval()(model, batch)[2]
    assert not any(key.startswith(PREFIX) for key in log)


REFUSED = {
    "--checkpoint-activations": lambda: build_ours(checkpoint_activations=True),
    "--fp16": lambda: build_ours().half(),
}


@pytest.mark.parametrize("option", REFUSED)
def test_models_whose_gradients_cannot_be_taken_apart_are_refused(option):
    term, model = criterion(**TERMS, log_gradient_share=100), REFUSED[option]()
    with pytest.raises(ValueError, match=f"--log-gradient-share 100: not together with {option}"):
        term.check_model(model)
    term.eval().check_model(model)  # where no gradient is taken


def test_float16_without_a_scale_is_refused():
    term, model = criterion(**TERMS, log_gradient_share=100), build_ours()
    with torch.autocast("cpu", torch.bfloat16):
        term.check_model(model)
    with torch.autocast("cpu", torch.float16), pytest.raises(ValueError, match="--amp in float16"):
        term.check_model(model)


def test_several_processes_are_refused(monkeypatch):
    term = criterion(**TERMS, log_gradient_share=100)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    for processes in (1, 2):
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda count=processes: count)
        if processes == 1:
            term.check_model(build_ours())
    with pytest.raises(ValueError, match="--log-gradient-share 100: not together with several"):
        term.check_model(build_ours())


BAD = {
    "--log-gradient-share 100 has no effect without a term": {"log_gradient_share": 100},
    "--log-gradient-share -1: must be 0 or more": {**TERMS, "log_gradient_share": -1},
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_and_idle_options_are_refused_by_name(message):
    with pytest.raises(ValueError) as raised:
        criterion(**BAD[message])
    assert message in str(raised.value) and "\n" not in str(raised.value)
