"""Building cascades: the released network, the paper's parameter counts, refusals."""

import pytest
import torch

from diverse_mha.methods.coda import CASCADES, build_cascade
from tests.methods.coda.test_cascade import logits_of


def test_network_is_the_released_one():
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


def network_size(num_heads, ratio=4):
    """Linear(H, rH), Linear(rH, rH), Linear(rH, H), weights and biases."""
    hidden = ratio * num_heads
    return (num_heads + 1) * hidden + (hidden + 1) * hidden + (hidden + 1) * num_heads


@pytest.mark.parametrize(("num_heads", "size"), [(4, 420), (8, 1608)])
def test_parameters_of_one_network(num_heads, size):
    assert size == network_size(num_heads)
    assert sum(p.numel() for p in build_cascade("mlp", num_heads).parameters()) == size


@pytest.mark.parametrize(
    ("base", "num_heads", "layers", "components", "printed"),
    [
        pytest.param(39_469_056, 4, 6, 3, ("39.47", "39.48"), id="iwslt14"),
        pytest.param(246_933_504, 8, 16, 1, ("246.93", "246.96"), id="wikitext-103"),
    ],
)
def test_parameter_counts_of_the_paper(base, num_heads, layers, components, printed):
    """Zheng et al. 2021, Tables 1 and 2, in millions of parameters.

    IWSLT14: 6 layers of encoder, decoder and cross-attention, 420 parameters a network. One in
    every module gives 18 x 420 = 7560, one in every module but those of the first layer
    15 x 420 = 6300. WikiText-103: 16 layers, 1608 a network: 25 728 or 24 120. Both readings
    give the printed totals. Ours is the second, which has no network that is never used.

    The base is fairseq's model, with 8848 and 6632 types for IWSLT14.
    """

    def in_millions(count):
        return f"{count / 1e6:.2f}"

    size = sum(p.numel() for p in build_cascade("mlp", num_heads).parameters())
    assert in_millions(base) == printed[0]
    assert in_millions(base + (layers - 1) * components * size) == printed[1]
    assert in_millions(base + layers * components * size) == printed[1]


def test_nothing_to_do_is_none_and_draws_nothing():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert build_cascade("none", 4) is None
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(build_cascade("none", 4, noise=1.0).parameters())
    assert not list(build_cascade("residual", 4).parameters())


def test_parameter_names():
    names = [name for name, _ in build_cascade("mlp", 2, depth=1).named_parameters()]
    assert names == [f"network.layers.{k}.{p}" for k in (0, 1) for p in ("weight", "bias")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "MLP"}, r"kind is 'MLP'; expected one of \('none', 'residual', 'mlp'\)"),
        ({"num_heads": 0}, "num_heads is 0; expected a whole number, 1 or more"),
        ({"hidden_ratio": 0}, "hidden_ratio is 0; expected a whole number, 1 or more"),
        ({"hidden_ratio": 2.5}, "hidden_ratio is 2.5; expected a whole number, 1 or more"),
        ({"depth": 0}, "depth is 0; expected a whole number, 1 or more"),
        ({"depth": True}, "depth is True; expected a whole number, 1 or more"),
        ({"noise": -0.1}, "noise is -0.1; expected a finite number, 0 or positive"),
        ({"noise": float("nan")}, "noise is nan; expected a finite number, 0 or positive"),
        ({"noise": float("inf")}, "noise is inf; expected a finite number, 0 or positive"),
    ],
    ids=lambda x: "" if isinstance(x, str) else "-".join(f"{k}={v}" for k, v in x.items()),
)
def test_bad_options_are_named(options, message):
    for kind in CASCADES:
        with pytest.raises(ValueError, match=message):
            build_cascade(**{"kind": kind, "num_heads": 4, **options})


def test_bad_tensors_are_named():
    logits, previous = logits_of((1, 2, 3, 3))
    cascade = build_cascade("residual", 2)
    with pytest.raises(ValueError, match=r"previous has shape \(1, 2, 3, 2\); expected .*3, 3"):
        cascade(logits, previous[..., :2])
    with pytest.raises(ValueError, match="masked has dtype torch.float32; expected torch.bool"):
        cascade(logits, previous, torch.zeros(3, 3))
