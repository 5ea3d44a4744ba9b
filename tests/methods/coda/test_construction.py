"""Construction of cascades."""

import pytest
import torch

from diverse_mha.methods.coda import CASCADES, build_cascade
from tests.methods.coda.test_cascade import logits_of


def test_default_network_has_the_layers_of_the_released_code():
    network = build_cascade("mlp", 4).network
    shapes = [tuple(layer.weight.shape) for layer in network.layers]
    assert shapes == [(16, 4), (16, 16), (4, 16)]
    torch.manual_seed(8)
    network.reset_parameters()
    for layer in network.layers:
        assert not layer.bias.any()
        # Xavier uniform with gain 1/sqrt(2): bound sqrt(6 / (in + out)) / sqrt(2).
        bound = (3.0 / sum(layer.weight.shape)) ** 0.5
        assert 0.8 * bound < float(layer.weight.detach().abs().max()) <= bound


def test_none_without_noise_builds_no_cascade_and_draws_no_random_number():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert build_cascade("none", 4) is None
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(build_cascade("none", 4, noise=1.0).parameters())
    assert not list(build_cascade("residual", 4).parameters())


def test_parameters_have_stable_names():
    names = [name for name, _ in build_cascade("mlp", 2, depth=1).named_parameters()]
    assert names == [f"network.layers.{k}.{p}" for k in (0, 1) for p in ("weight", "bias")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "MLP"}, r"kind is 'MLP'; expected one of \('none', 'residual', 'mlp'\)"),
        ({"num_heads": 0}, "num_heads is 0; expected a whole number, 1 or more"),
        ({"hidden_ratio": 2.5}, "hidden_ratio is 2.5; expected a whole number, 1 or more"),
        ({"depth": True}, "depth is True; expected a whole number, 1 or more"),
        ({"noise": -0.1}, "noise is -0.1; expected a finite number, 0 or positive"),
        ({"noise": float("nan")}, "noise is nan; expected a finite number, 0 or positive"),
    ],
    ids=lambda x: "" if isinstance(x, str) else "-".join(f"{k}={v}" for k, v in x.items()),
)
def test_invalid_options_are_reported(options, message):
    for kind in CASCADES:
        with pytest.raises(ValueError, match=message):
            build_cascade(**{"kind": kind, "num_heads": 4, **options})


def test_invalid_tensors_are_reported():
    logits, previous = logits_of((1, 2, 3, 3))
    cascade = build_cascade("residual", 2)
    with pytest.raises(ValueError, match=r"previous has shape \(1, 2, 3, 2\); expected .*3, 3"):
        cascade(logits, previous[..., :2])
    with pytest.raises(ValueError, match="masked has dtype torch.float32; expected torch.bool"):
        cascade(logits, previous, torch.zeros(3, 3))
