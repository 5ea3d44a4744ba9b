"""The CKA term equals a reference with full kernel matrices; invariances and special cases."""

import math

import pytest
import torch

from diverse_mha.methods.cka import cka
from tests import reference_diversity
from tests.methods.inputs import EXACT, assert_same, padding, value_and_grad, vectors


def literal(x, mask=None):
    return reference_diversity.cka(reference_diversity.real_rows(x, mask))


@pytest.mark.parametrize("num_heads", [2, 3, 5])
@pytest.mark.parametrize("lengths", [None, [5, 2, 1], [5, 0, 3]])
def test_value_and_gradient_equal_the_kernel_matrix_reference(num_heads, lengths):
    mask = None if lengths is None else padding(lengths)
    assert_same(cka, literal, 0.5 + vectors(num_heads=num_heads), mask)


def test_padding_is_never_read():
    mask, x = padding([5, 2, 1]), vectors()
    value, grad = value_and_grad(cka, x.masked_fill(mask[:, None, :, None], math.nan), mask)
    expected, expected_grad = value_and_grad(cka, x, mask)
    assert torch.equal(value, expected) and torch.equal(grad, expected_grad)
    assert not grad.masked_select(mask[:, None, :, None]).any()


def test_rotation_scale_and_shift_of_a_head_do_not_change_cka():
    x = vectors(dtype=torch.float32)
    turn, _ = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1)))
    for scale in (1e-12, 1.0, 1e9):
        other = x.clone()
        other[:, 1] = scale * (x[:, 1] @ turn + 3.0)
        tolerance = {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(cka(other), cka(x), **tolerance)
    other[:, 1:] = other[:, :1]
    torch.testing.assert_close(cka(other), torch.tensor(1.0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_computed_in_float32(dtype):
    x = vectors().to(dtype).requires_grad_()
    expected, expected_grad = value_and_grad(cka, x.double())
    with torch.autocast("cpu", torch.bfloat16):
        value = cka(x)
    (grad,) = torch.autograd.grad(value, x)
    assert value.dtype == torch.float32 and grad.dtype == dtype
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(grad.double(), expected_grad, rtol=4 * eps, atol=1e-7 + eps / 1e3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [None, [5, 2, 1]])
def test_powers_of_2_change_no_bit(dtype, lengths):
    """Squares of such values overflow or underflow; scaled by a power of 2, nothing is rounded."""
    mask = None if lengths is None else padding(lengths)
    x = vectors().to(dtype)
    expected, expected_grad = value_and_grad(cka, x, mask)
    assert expected > 0 and expected_grad.any()
    for exponent in (-100, -60, 1, 60, 100, 124):
        value, grad = value_and_grad(cka, torch.ldexp(x, torch.tensor(exponent)), mask)
        assert value == expected, exponent
        if exponent > -100 and exponent < 100:  # else gradients underflow or overflow
            assert torch.ldexp(grad, torch.tensor(exponent)).equal(expected_grad), exponent


def test_equal_heads_have_no_gradient():
    """CKA is 1, its maximum, so no target parts heads that are equal up to rotation and scale."""
    x = vectors()
    turn, _ = torch.linalg.qr(torch.ones(6, 6, dtype=torch.float64).tril())
    x[:, 1:] = 2.5 * (x[:, :1] @ turn)
    value, grad = value_and_grad(cka, x)
    torch.testing.assert_close(value, torch.ones_like(value), **EXACT)
    torch.testing.assert_close(grad, torch.zeros_like(grad), **EXACT)


def test_constant_heads_have_cka_0_and_finite_gradients():
    """Inputs of one head, one position, no position or only zeros give 0 and a gradient of 0."""
    x = vectors(num_heads=3)
    x[:, 0] = 0.7
    value, grad = value_and_grad(cka, x)
    both, _ = value_and_grad(cka, x[:, 1:])
    torch.testing.assert_close(value, both / 3, **EXACT)  # two of three pairs have CKA 0
    assert grad.isfinite().all()
    for nothing in (x[:, :1], x[:1, :, :1], x[:, :, :0], x * 0):
        value, grad = value_and_grad(cka, nothing)
        assert value == 0 and not grad.any()


@pytest.mark.parametrize("positions", [32, 128, 512, 2048])
def test_cka_of_independent_heads_is_high_with_few_positions(positions):
    """CKA is about 1 / (1 + N / D) for N positions and D dimensions, as ``cka`` documents."""
    generator = torch.Generator().manual_seed(positions)
    x = torch.randn(1, 8, positions, 32, generator=generator)
    assert float(cka(x)) == pytest.approx(1 / (1 + positions / 32), rel=0.05)
