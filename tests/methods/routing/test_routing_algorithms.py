"""Simple and EM routing, plain, in chunks and by the kernel, equal Algorithms 1 and 2."""

import pytest
import torch

from diverse_mha.methods.routing import backend, em_routing, fused_routing, simple_routing
from tests import reference_routing as reference

EXACT = {"rtol": 1e-9, "atol": 1e-12}
SHAPES = [(2, 4, 6, 1), (2, 3, 4, 3), (3, 1, 5, 1), (1, 2, 1, 4), (2, 8, 1, 1)]
VARIANTS = [
    (em_routing, {"activation": True}),
    (em_routing, {"activation": False}),
    (em_routing, {"activation": True, "activation_cost": 0.7, "input_cost": -0.4}),
    (simple_routing, {"softmax_over": "capsules"}),
    (simple_routing, {"softmax_over": "heads"}),
]
ORACLES = {em_routing: reference.em_routing, simple_routing: reference.simple_routing}


def shape_id(shape):
    return "K{}-H{}-N{}-D{}".format(*shape)


def variant_id(variant):
    routing, options = variant
    return "-".join([routing.__name__, *(f"{k}={v}" for k, v in options.items())])


def votes_of(shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def value_and_grad(function, votes):
    votes = votes.detach().clone().requires_grad_()
    value = function(votes)
    weights = torch.linspace(-1.0, 2.0, value.numel(), dtype=value.dtype).view_as(value)
    (grad,) = torch.autograd.grad((value * weights).sum(), votes)
    return value.detach(), grad


def plain_and_chunked(routing, options):
    yield lambda votes: routing(votes, **options)
    yield lambda votes: fused_routing(routing, votes, options, backend="chunked")


# Equality with the slow reference.


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_routing_equals_the_algorithm(variant, shape, iterations):
    routing, options = variant
    votes, options = votes_of(shape), {**options, "iterations": iterations}
    expected = value_and_grad(lambda v: ORACLES[routing](v, **options), votes)
    for form in plain_and_chunked(routing, options):
        torch.testing.assert_close(value_and_grad(form, votes), expected, **EXACT)


@pytest.mark.parametrize("shape", SHAPES[:2], ids=shape_id)
def test_variances_below_the_floor_are_clamped(shape):
    """If votes are nearly equal, every variance is clamped and gets no gradient."""
    votes, options = 1e-4 * votes_of(shape), {"iterations": 3}
    expected = value_and_grad(lambda v: reference.em_routing(v, 3), votes)
    for form in plain_and_chunked(em_routing, options):
        torch.testing.assert_close(value_and_grad(form, votes), expected, **EXACT)


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
@pytest.mark.parametrize("tokens", [1, 7, 64, 130])
def test_any_number_of_chunks_equals_the_algorithm(variant, tokens, monkeypatch):
    """The tokens are fewer than a chunk of 16, fill whole chunks, or leave a remainder."""
    routing, options = variant
    votes = votes_of((tokens, 4, 6, 1))
    monkeypatch.setattr(backend, "CPU_CHUNK", 16 * 4 * 6)
    expected = value_and_grad(lambda v: routing(v, **options), votes)
    result = value_and_grad(lambda v: fused_routing(routing, v, options, backend="chunked"), votes)
    torch.testing.assert_close(result, expected, **EXACT)


# The compiled kernel, which computes in float32, against plain torch in float64.


def assert_kernel_is_right(routing, options, votes, **tolerance):
    expected, expected_grad = value_and_grad(lambda v: routing(v, **options), votes.double())
    value, grad = value_and_grad(
        lambda v: fused_routing(routing, v, options, backend="kernel"), votes
    )
    torch.testing.assert_close(value, expected.float(), **tolerance)
    torch.testing.assert_close(grad, expected_grad.float(), **tolerance)


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
@pytest.mark.parametrize(
    "shape", [(2, 4, 6, 1), (3, 1, 5, 1), (2, 8, 1, 1), (7, 16, 130, 1), (63, 8, 64, 1)]
)
@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_kernel_equals_plain_torch(variant, shape, iterations):
    """Some sizes are no multiple of a vector register, and some need several threads."""
    routing, options = variant
    votes = votes_of(shape, torch.float32)
    assert_kernel_is_right(routing, {**options, "iterations": iterations}, votes)


@pytest.mark.parametrize("scale", [1e-4, 3e-3, 30.0, 1e4])
def test_kernel_is_exact_for_votes_of_any_scale(scale):
    """Depending on the scale, none, some or all variances are above the floor."""
    votes = scale * votes_of((5, 4, 33, 1), torch.float32)
    # Gradients nearly cancel beside results of 1e4.
    tolerance = {"rtol": 1e-4, "atol": 1e-5 * max(1.0, scale)}
    assert_kernel_is_right(em_routing, {"iterations": 3}, votes, **tolerance)


@pytest.mark.parametrize("shared, apart", [(10.0, 1e-2), (1e3, 1.0), (1e3, 0.0)])
def test_kernel_keeps_the_sum_of_gradients_if_heads_nearly_agree(shared, apart):
    """The sum of gradients over heads must not be lost in rounding errors of the mean vote."""
    votes = apart * votes_of((16, 8, 32, 1)) + shared * votes_of((16, 1, 32, 1))
    _, exact = value_and_grad(em_routing, votes)
    _, grad = value_and_grad(
        lambda v: fused_routing(em_routing, v, {}, backend="kernel"), votes.float()
    )
    exact, grad = exact.sum(dim=1), grad.double().sum(dim=1)
    assert float((grad - exact).norm() / exact.norm()) < 1e-2


def test_kernel_is_exact_if_agreement_weights_underflow():
    """All heads vote about 120 for capsule 0; other capsules have C below exp(-87), 0 in float32.

    The shares of these capsules, C over the sum of C, are still defined.
    """
    votes = votes_of((5, 4, 33, 1), torch.float32)
    votes[:, :, 0] += 120.0
    mean = votes.double().mean(dim=1, keepdim=True)
    logits = votes.double() * mean * mean.abs() / (1.0 + mean.square())
    assert (logits.log_softmax(dim=2)[:, :, 1:] < -87.0).all()
    # Rounding logits of about 100 by 1e-5 changes the shares by this relative amount.
    assert_kernel_is_right(simple_routing, {"iterations": 3}, votes, rtol=1e-4, atol=1e-4)


def test_kernel_is_exact_if_a_capsule_gets_no_mass():
    """The variance of capsule 0 is so large that its activation and all its C are 0.

    After the next M-step, the activation of capsule 0 is logistic(0) = 1/2.
    """
    votes = votes_of((5, 16, 2, 1), torch.float32)
    votes[:, :, 0] *= 1e4
    expected = em_routing(votes.double(), 2)
    value = fused_routing(em_routing, votes, {"iterations": 2}, backend="kernel")
    torch.testing.assert_close(value, expected.float(), rtol=1e-4, atol=1e-4)
    assert (expected[:, 0].abs() > 1).any()


def test_kernel_accepts_strided_votes_and_gradients():
    votes = votes_of((6, 4, 10, 1), torch.float32)
    strided = votes.transpose(0, 2).contiguous().transpose(0, 2).requires_grad_()
    out = fused_routing(em_routing, strided, {}, backend="kernel")
    (grad,) = torch.autograd.grad(out, strided, torch.ones(()).expand_as(out))
    expected = value = em_routing(votes.requires_grad_())
    (expected_grad,) = torch.autograd.grad(expected.sum(), votes)
    torch.testing.assert_close(out, value)
    torch.testing.assert_close(grad, expected_grad)


# Numerics.

ROBUSTNESS = {
    "zero": lambda v: 0.0 * v,
    "identical": lambda v: torch.full_like(v, 3.0),
    "identical-heads": lambda v: v[:, :1].expand_as(v),
    "identical-huge": lambda v: torch.full_like(v, 1e6) + v[:1, :1],
    "one-outlier": lambda v: torch.cat([v[:, :1] * 1e6, v[:, 1:]], dim=1),
    "1e4": lambda v: 1e4 * v,
    "1e10": lambda v: 1e10 * v,
    "tiny": lambda v: 1e-20 * v,
}


@pytest.mark.parametrize("case", ROBUSTNESS)
@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
@pytest.mark.parametrize("shape", [SHAPES[0], (1, 16, 512, 1)], ids=shape_id)
def test_extreme_votes_give_no_nan(case, variant, shape):
    routing, options = variant
    votes = ROBUSTNESS[case](votes_of(shape, torch.float32))
    for form in (
        *plain_and_chunked(routing, options),
        lambda votes: fused_routing(routing, votes, options, backend="kernel"),
    ):
        value, grad = value_and_grad(form, votes)
        assert value.isfinite().all() and grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
def test_half_precision_is_routed_in_float32(dtype, variant):
    """Only votes and gradients are rounded."""
    routing, options = variant
    votes = votes_of((3, 4, 6, 1)).to(dtype)
    expected, expected_grad = value_and_grad(lambda v: routing(v, **options), votes.float())
    for form in (
        *plain_and_chunked(routing, options),
        lambda v: fused_routing(routing, v, options),  # the kernel, if there is a compiler
    ):
        value, grad = value_and_grad(form, votes)
        assert value.dtype == torch.float32 and grad.dtype == dtype
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grad, expected_grad.to(dtype))


# Invalid arguments.


@pytest.mark.parametrize("routing", ORACLES)
def test_invalid_votes_and_options_are_refused(routing):
    votes = votes_of((2, 3, 4, 1))
    with pytest.raises(ValueError, match=r"votes has shape \(2, 3, 4\); expected \(K, H, N, D\)"):
        routing(votes[..., 0])
    with pytest.raises(ValueError, match=r"votes has shape \(2, 3, 0, 1\)"):
        routing(votes[:, :, :0])
    with pytest.raises(ValueError, match=r"votes has dtype torch.int64"):
        routing(votes.long())
    for iterations in (0, -1, 1.5, True):
        with pytest.raises(
            ValueError, match=rf"iterations is {iterations}; expected a whole number"
        ):
            routing(votes, iterations)


def test_unknown_softmax_is_refused():
    with pytest.raises(ValueError, match=r"softmax_over is 'tokens'; expected one of \('capsules'"):
        simple_routing(votes_of((2, 3, 4, 1)), softmax_over="tokens")
    with pytest.raises(ValueError, match=r"softmax_over is 'tokens'; expected one of \('capsules'"):
        options = {"softmax_over": "tokens"}
        fused_routing(simple_routing, votes_of((2, 3, 4, 1), torch.float32), options)


def test_unknown_backend_is_refused():
    with pytest.raises(ValueError, match=r"backend is 'fast'; expected one of \('auto', 'kernel'"):
        fused_routing(em_routing, votes_of((2, 3, 4, 1)), {}, backend="fast")


def test_no_tokens_give_an_empty_result():
    for routing in ORACLES:
        assert fused_routing(routing, votes_of((0, 3, 4, 1)), {}).shape == (0, 4, 1)
