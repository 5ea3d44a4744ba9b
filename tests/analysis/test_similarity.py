"""CKA and SVCCA: compared with slow references and known values, and with degenerate input."""

import numpy as np
import pytest
import torch

from diverse_mha.analysis import cka, svcca
from tests.analysis import reference


def responses(n, *widths, seed=1, offset=3.0):
    """Return correlated activations (n, width) for each width, with unequal variances."""
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randn(n, max(widths), generator=generator, dtype=torch.float64)
    sets = []
    for width in widths:
        mix = torch.randn(max(widths), width, generator=generator, dtype=torch.float64)
        own = torch.randn(n, width, generator=generator, dtype=torch.float64)
        scale = torch.logspace(0, -1.5, width, dtype=torch.float64)
        sets.append((shared @ mix + 2 * own) * scale + offset)
    return sets


@pytest.mark.parametrize("n,a,b", [(40, 6, 6), (57, 5, 9), (200, 16, 3), (31, 1, 1)])
def test_linear_cka_equals_the_full_matrix_reference(n, a, b):
    x, y = responses(n, a, b)
    assert cka(x, y) == pytest.approx(reference.cka(x.numpy(), y.numpy()), rel=1e-10)


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("n,a,b", [(40, 6, 6), (57, 5, 9), (200, 16, 3)])
def test_svcca_equals_the_full_matrix_reference(n, a, b, threshold):
    x, y = responses(n, a, b)
    found = svcca(x, y, threshold)
    expected = reference.svcca(x.numpy(), y.numpy(), threshold)
    np.testing.assert_allclose(found.coefficients.numpy(), expected, rtol=0, atol=1e-9)
    assert found.mean == pytest.approx(expected.mean(), abs=1e-9)
    assert len(expected) == min(found.kept)


@pytest.mark.parametrize("n,a,b", [(40, 6, 6), (57, 5, 9), (200, 16, 3), (31, 1, 1)])
def test_top_mean_equals_that_of_the_published_code(n, a, b):
    """Raghu et al. average the shortest prefix of coefficients that has 98 % of their sum."""
    x, y = responses(n, a, b)
    found = svcca(x, y)
    rho = found.coefficients.tolist()
    top = next((i for i in range(len(rho)) if sum(rho[:i]) / sum(rho) >= 0.98), len(rho))
    assert found.top_mean == pytest.approx(sum(rho[:top]) / top, rel=1e-12)
    assert found.top_mean >= found.mean


def test_cka_is_invariant_to_orthogonal_maps_scale_and_shift():
    (x,) = responses(80, 6)
    q, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))
    assert cka(x, 0.3 * x @ q + 5) == pytest.approx(1.0, abs=1e-12)


def test_svcca_of_all_directions_is_invariant_to_invertible_maps():
    (x,) = responses(80, 6)
    mix = torch.randn(6, 6, dtype=torch.float64) + 3 * torch.eye(6, dtype=torch.float64)
    assert svcca(x, x @ mix + 5, threshold=1.0).mean == pytest.approx(1.0, abs=1e-9)
    assert cka(x, x @ mix) < 0.999, "CKA is not invariant to invertible maps"


def test_constant_activations_have_no_similarity():
    x, _ = responses(50, 4, 4)
    still = torch.full((50, 4), 0.1, dtype=torch.float32)
    for other in (x, still):
        assert cka(other, still) == 0.0
        found = svcca(other, still)
        assert found.mean == found.top_mean == 0 and found.coefficients.numel() == 0


def test_constant_dimensions_are_ignored_by_svcca():
    x, y = responses(50, 4, 4)
    dead = torch.cat((y, torch.full((50, 1), 7.0, dtype=torch.float64)), dim=1)
    assert svcca(x, dead, 1.0).kept == (4, 4)
    assert svcca(x, dead, 1.0).mean == pytest.approx(svcca(x, y, 1.0).mean, abs=1e-9)


def test_cka_is_scale_invariant():
    x, y = responses(40, 6, 5, offset=0.0)
    for scale in (1e-60, 1e-6, 1e6, 1e60):
        expected = pytest.approx(cka(x, y), rel=1e-9)
        assert cka(scale * x, y) == expected
        assert cka(scale * x, scale * y) == expected
        assert svcca(scale * x, y).mean == pytest.approx(svcca(x, y).mean, rel=1e-9)
    for scale in (1e-100, 1e100):
        assert cka(scale * x, x) == pytest.approx(1, rel=1e-9)
        assert cka(scale * x, scale * y) == pytest.approx(cka(x, y), rel=1e-9)


def test_float32_and_bfloat16_are_computed_in_float64():
    x, y = responses(60, 5, 5)
    for dtype in (torch.float32, torch.bfloat16):
        rounded = x.to(dtype), y.to(dtype)
        doubled = rounded[0].double(), rounded[1].double()
        assert cka(*rounded) == pytest.approx(cka(*doubled), abs=1e-12)


def test_too_few_positions_are_refused():
    x, y = responses(12, 8, 8)
    with pytest.raises(ValueError, match="12 positions are too few for 8 and 8 dimensions"):
        svcca(x, y, threshold=1.0)
    assert 0 < cka(x, y) <= 1
    # Centred data of N positions have rank N - 1. So two subspaces always share a direction if
    # their dimensions add up to N.
    with pytest.raises(ValueError, match="16 positions are too few"):
        svcca(*responses(16, 8, 8), threshold=1.0)
    assert svcca(*responses(17, 8, 8), threshold=1.0).kept == (8, 8)
    with pytest.raises(ValueError, match="at least 3"):
        cka(x[:1], y[:1])


def test_invalid_arguments_are_refused():
    x, y = responses(20, 3, 3)
    with pytest.raises(ValueError, match="20 and 19 positions"):
        cka(x, y[:19])
    with pytest.raises(ValueError, match="threshold 1.5"):
        svcca(x, y, threshold=1.5)
    with pytest.raises(ValueError, match=r"expected \(N, d\)"):
        svcca(x.unsqueeze(0), y)
