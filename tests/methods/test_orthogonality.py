"""SRIP equals numpy's spectral norm; its gradient and special cases."""

import pytest
import torch

from diverse_mha.methods import orthogonality
from diverse_mha.methods.orthogonality import POWER_ITERATIONS, srip
from tests import reference_diversity
from tests.methods.inputs import padding, value_and_grad, vectors

CONVERGED = {"method": "power", "iterations": 500}


@pytest.mark.parametrize("num_heads,head_dim", [(1, 6), (2, 6), (8, 6), (8, 32)])
@pytest.mark.parametrize("lengths", [None, [5, 2, 1], [5, 0, 3]])
# The power method converges slowly if eigenvalues are close. With scale 0.01 all are near -1.
@pytest.mark.parametrize("scale,close", [(0.01, 1e-3), (0.3, 1e-5), (3.0, 1e-5)])
def test_srip_equals_numpys_spectral_norm(num_heads, head_dim, lengths, scale, close):
    mask = None if lengths is None else padding(lengths)
    x = vectors(num_heads=num_heads, head_dim=head_dim, scale=scale)
    expected = reference_diversity.srip(x, mask)
    assert float(srip(x, mask, method="exact")) == pytest.approx(expected, rel=1e-9)
    assert float(srip(x, mask, **CONVERGED)) == pytest.approx(expected, rel=close)


@pytest.mark.parametrize("num_heads", [1, 2, 8])
@pytest.mark.parametrize("options", [{"method": "exact"}, CONVERGED], ids=["exact", "power"])
def test_gradients_pass_gradcheck(options, num_heads):
    x = vectors(bsz=2, length=2, num_heads=num_heads).requires_grad_()
    mask = padding([2, 1], 2)
    # The power method is checked along one random direction: each of the 192 coordinates would
    # take 500 iterations twice.
    fast = options is CONVERGED
    assert torch.autograd.gradcheck(
        lambda y: srip(y, mask, **options), x, atol=1e-4, fast_mode=fast
    )


def test_default_power_method_slightly_underestimates_the_norm():
    """The 8 heads are random, nearly orthonormal, or share a component."""
    for scale, common in ((1.0, 0.0), (32**-0.5, 0.0), (0.5, 0.5)):
        x = vectors(1, 8, 500, 32, scale=scale) + common * vectors(1, 1, 500, 32, seed=1)
        exact, exact_grad = value_and_grad(lambda y: srip(y, method="exact"), x)
        power, grad = value_and_grad(srip, x)
        assert 0.98 * exact < power <= exact * (1 + 1e-12)
        assert torch.cosine_similarity(grad.flatten(), exact_grad.flatten(), dim=0) > 0.9
    assert POWER_ITERATIONS == 2


def test_eigenvalues_of_opposite_sign_and_equal_size_do_not_cancel():
    """For two heads of norm 1 with cosine c, W = [[0, c], [c, 0]] has eigenvalues c and -c."""
    c = 0.6
    x = torch.tensor([[1.0, 0.0], [c, (1 - c * c) ** 0.5]]).double()[None, :, None, :]
    for method in ("exact", "power"):
        assert float(srip(x, method=method)) == pytest.approx(c)


@pytest.mark.parametrize("scale", [1e10, 1e18, 1e30])
def test_overflow_is_not_read_as_orthogonal_heads(scale):
    """Norms in the power method overflow; the value was 0, its optimum."""
    assert srip(vectors(scale=scale, dtype=torch.float32)).isnan()


@pytest.mark.parametrize("method", ["exact", "power"])
def test_orthonormal_heads_give_zero(method):
    """W = V^T V - I is 0, so the value and its subgradient are 0."""
    x = torch.eye(4, 6, dtype=torch.float64)[None, :, None, :].expand(2, 4, 3, 6)
    value, grad = value_and_grad(lambda y: srip(y, method=method), x)
    assert value == 0 and not grad.any()


@pytest.mark.parametrize("method", ["exact", "power"])
def test_repeated_eigenvalues_have_a_gradient(method):
    """For orthogonal heads of norm 2, all eigenvalues of W are 3.

    The gradient 2 (V u) u^T has norm 4 for any unit vector u.
    """
    x = 2 * torch.eye(4, 6, dtype=torch.float64)[None, :, None, :]
    value, grad = value_and_grad(lambda y: srip(y, method=method), x)
    assert value == pytest.approx(3.0)
    assert float(grad.norm()) == pytest.approx(4.0)


@pytest.mark.parametrize("shared", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("num_heads", [2, 4, 8])
def test_heads_that_share_a_component_have_the_exact_gradient(num_heads, shared):
    """Here the power method converges, and rounding must not spoil its gradient."""
    x = vectors(num_heads=num_heads, length=64, seed=1).float()
    x = x + shared * vectors(num_heads=1, length=64, seed=2).float()
    _, exact = value_and_grad(lambda y: srip(y, method="exact"), x)
    _, power = value_and_grad(srip, x)
    assert float((power - exact).norm() / exact.norm()) < (0.03 if shared == 1.0 else 1e-3)


def test_many_positions_take_several_calls_for_eigenvalues(monkeypatch):
    """On a GPU, cuSOLVER limits the number of matrices in a call."""
    x, mask = vectors(), padding([5, 2, 1])
    expected = value_and_grad(srip, x, mask, method="exact")
    sizes, eigh = [], torch.linalg.eigh
    monkeypatch.setattr(orthogonality, "MOST_MATRICES", 4)
    monkeypatch.setattr(torch.linalg, "eigh", lambda w: sizes.append(len(w)) or eigh(w))
    torch.testing.assert_close(value_and_grad(srip, x, mask, method="exact"), expected)
    assert sizes == [4, 4, 4, 3]


BAD = {
    "method is 'svd'; expected one of": lambda x: srip(x, method="svd"),
    "iterations is -1; expected 0 or more": lambda x: srip(x, iterations=-1),
    "x has dtype torch.int64": lambda x: srip(x.long()),
    "padding_mask has dtype torch.float32": lambda x: srip(x, torch.ones(3, 5)),
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_arguments_are_refused(message):
    with pytest.raises(ValueError) as raised:
        BAD[message](vectors())
    assert message in str(raised.value)


@pytest.mark.parametrize("iterations, cosines", [(2, (0.88, 0.80)), (8, (0.97, 0.93))])
def test_power_and_exact_gradients_have_the_documented_cosine(iterations, cosines):
    for num_heads, expected in zip((8, 16), cosines, strict=True):
        x = vectors(bsz=60, num_heads=num_heads, length=50, head_dim=64)
        exact = value_and_grad(lambda x: srip(x, method="exact"), x)[1].flatten()
        near = value_and_grad(lambda x: srip(x, iterations=iterations), x)[1].flatten()
        cosine = torch.cosine_similarity(near, exact, dim=0)
        assert float(cosine) == pytest.approx(expected, abs=0.02)
