"""The routing module: parameter counts, values and errors."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from diverse_mha.methods.routing import RoutingAggregation
from tests import reference_routing as reference

KINDS = ["simple-routing", "em-routing"]


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def added_by(embed_dim, num_heads, **options):
    """Return how many more parameters the module has than the output projection it replaces."""
    with torch.device("meta"):
        return parameters(RoutingAggregation(embed_dim, num_heads, **options)) - parameters(
            nn.Linear(embed_dim, embed_dim)
        )


def test_parameter_count_depends_on_norms_but_not_on_capsules():
    base = added_by(512, 8)
    assert added_by(512, 8, capsules=64) == base
    assert added_by(512, 8, pre_norm=True) == base + 2 * 512
    assert added_by(512, 8, pre_norm=True, post_norm=True) == base + 4 * 512


def test_initial_vote_weights_of_a_head_are_those_of_a_separate_layer():
    """Xavier uniform of C -> C has bounds sqrt(6 / (C + C)) for any number of heads."""
    module = RoutingAggregation(32, 8)
    bound = math.sqrt(6 / (32 + 32))
    for weight in (module.hidden.weight, *module.votes.weight.chunk(8)):
        assert 0.95 * bound < float(weight.abs().max()) <= bound
    assert not module.votes.bias.any() and not module.hidden.bias.any()


@pytest.mark.parametrize("capsules", [None, 4, 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norms", [False, True])
def test_forward_equals_the_equations(kind, capsules, norms):
    """The expected result has votes by Eq. 8 and 9, routed by the slow reference algorithm."""
    embed_dim, num_heads = 8, 2
    module = RoutingAggregation(
        embed_dim, num_heads, kind=kind, capsules=capsules, pre_norm=norms, post_norm=norms
    ).double()
    x = torch.randn(2, 3, embed_dim, dtype=torch.float64)
    n_caps = capsules or embed_dim
    dims = embed_dim // n_caps

    omega_in = F.layer_norm(x.view(6, embed_dim), (embed_dim,)) if norms else x.view(6, embed_dim)
    omega_in = torch.relu(omega_in @ module.hidden.weight.T + module.hidden.bias)
    votes = torch.zeros(6, num_heads, n_caps, dims, dtype=torch.float64)
    for h in range(num_heads):
        for n in range(n_caps):
            rows = slice(h * embed_dim + n * dims, h * embed_dim + (n + 1) * dims)
            votes[:, h, n] = omega_in @ module.votes.weight[rows].T + module.votes.bias[rows]
    algorithm = reference.em_routing if kind == "em-routing" else reference.simple_routing
    expected = algorithm(votes, 3).reshape(2, 3, embed_dim)
    expected = F.layer_norm(expected, (embed_dim,)) if norms else expected

    torch.testing.assert_close(module(x), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_options_of_the_authors_code_take_effect(kind):
    x = torch.randn(4, 8)
    one = RoutingAggregation(8, 2, kind=kind)
    other = RoutingAggregation(8, 2, kind=kind, activation=False, softmax_over="heads")
    other.load_state_dict(one.state_dict())
    assert not torch.allclose(one(x), other(x))


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_and_autocast_are_near_float32(kind):
    """The dtype of the results is bfloat16."""
    torch.manual_seed(0)
    module = RoutingAggregation(16, 4, kind=kind)
    x = torch.randn(6, 16)
    expected = module(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        autocast = module(x)
    half = module.bfloat16()(x.bfloat16())
    assert autocast.dtype == half.dtype == torch.bfloat16
    # Two linear layers round to 8 bits.
    torch.testing.assert_close(autocast.float(), expected, rtol=0.05, atol=0.02)
    torch.testing.assert_close(half.float(), expected, rtol=0.05, atol=0.02)


def test_dropout_acts_in_training_only():
    module = RoutingAggregation(16, 4, dropout=0.5)
    x = torch.randn(6, 16)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


REFUSED = {
    "kind is 'linear'; expected one of ('simple-routing', 'em-routing')": {"kind": "linear"},
    "capsules is 3; expected a divisor of embed_dim, 8": {"capsules": 3},
    "dropout is 1.0; expected at least 0 and below 1": {"dropout": 1.0},
    "num_heads is 0; expected a whole number, 1 or more": {"num_heads": 0},
}


@pytest.mark.parametrize("message", REFUSED)
def test_impossible_arguments_are_refused(message):
    with pytest.raises(ValueError) as raised:
        RoutingAggregation(**{"embed_dim": 8, "num_heads": 2, **REFUSED[message]})
    assert message in str(raised.value)


def test_inputs_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match=r"head_outputs has shape \(3, 4\); expected its last"):
        RoutingAggregation(8, 2)(torch.randn(3, 4))
