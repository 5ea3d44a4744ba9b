"""Moments of a stream of batches; unbiased CKA is compared with its kernel-matrix definition."""

import re

import pytest
import torch

from diverse_mha.analysis.results import to_json
from diverse_mha.analysis.similarity import ModuleMeter, split_heads
from diverse_mha.attention import HeadStates
from diverse_mha.attention.sites import HeadNumbers
from diverse_mha.common.files import ROOT
from diverse_mha.measures.moments import Moments
from diverse_mha.measures.unbiased import NormMoments, positions_needed, unbiased_cka


def hsic_1(k, m):
    """Return unbiased HSIC from two kernel matrices (Song et al. 2012, Eq. 5)."""
    n = len(k)
    k, m = (x - torch.diag(x.diagonal()) for x in (k, m))
    total = (k * m).sum() + k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k @ m).sum()
    return total / (n * (n - 3))


def cka_from_kernels(x, heads):
    kernels = [part @ part.T for part in x.double().chunk(heads, dim=1)]
    own = [hsic_1(k, k) for k in kernels]
    return torch.stack(
        [
            torch.stack([hsic_1(k, m) / (a * b) ** 0.5 for m, b in zip(kernels, own, strict=True)])
            for k, a in zip(kernels, own, strict=True)
        ]
    )


@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_unbiased_cka_equals_the_kernel_matrix_reference_for_any_batch_sizes(offset):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(50, 12, generator=generator, dtype=torch.float64) + offset
    x[:, 3:6] = x[:, :3] @ torch.randn(3, 3, generator=generator, dtype=torch.float64) + x[:, 3:6]
    x[30:] += 2  # the last rows have another mean
    for sizes in ([50], [1, 3, 0, 20, 26]):
        moments, norms = Moments(12), NormMoments(4)
        for rows in x.split(sizes):
            moments.update(rows)
            norms.update(rows)
        found = unbiased_cka(split_heads(moments.scatter(), 4), norms.result(moments), 50)
        torch.testing.assert_close(found, cka_from_kernels(x, 4), rtol=1e-8, atol=1e-9)


def cka_of(outputs):
    """Return the CKA of a module from its heads' outputs (B, H, T, D)."""
    states = HeadStates(outputs=outputs)
    meter = ModuleMeter(states, ("cka",), 0.99)
    meter.update(states)
    return meter.result(HeadNumbers.unpruned(outputs.size(1)))["cka"]


def test_unbiased_cka_of_independent_heads_is_0_and_of_equal_heads_1():
    """Biased CKA of independent heads with 32 dimensions is about 1/3 at 64 positions."""
    values, biased = [], []
    for seed in range(40):
        outputs = torch.randn(1, 3, 64, 32, generator=torch.Generator().manual_seed(seed))
        outputs[:, 2] = outputs[:, 1]
        found = to_json(cka_of(outputs))
        biased.append(found["pairs"][0][1])
        assert found["pairs_unbiased"][1][2] == pytest.approx(1)
        values.append(found["pairs_unbiased"][0][1])
    assert sum(biased) / 40 == pytest.approx(0.336, abs=0.01)
    assert abs(sum(values) / 40) < 0.005 and min(values) < 0 < max(values)


def cka_of_random_heads(positions, shared, width=64, heads=8):
    """Return the mean CKA of random heads, and its unbiased estimate.

    ``shared``: share of the dimensions in which all heads are equal.
    """
    generator = torch.Generator().manual_seed(positions)
    outputs = torch.randn(1, heads, positions, width, generator=generator)
    outputs[..., : int(shared * width)] = outputs[:, :1, :, : int(shared * width)]
    cka = cka_of(outputs)
    return cka.mean, cka.unbiased_mean


def test_cka_of_independent_heads_matches_the_documented_table():
    """A row of the table on docs/analysis.md has positions, CKA and unbiased CKA."""
    page = (ROOT / "docs/analysis.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| (0\.\d+) \| (0\.\d+) \|$", page, re.M)
    assert [row[0] for row in rows] == ["64", "256", "1,024", "4,096"]
    for positions, *expected in rows:
        found = cka_of_random_heads(int(positions.replace(",", "")), 0)
        assert found == pytest.approx([*map(float, expected)], abs=0.006)


@pytest.mark.parametrize("shared, needed", [(0, 3136), (0.5, 1536)])
@pytest.mark.parametrize("positions", [64, 256])
def test_the_needed_positions_reduce_the_bias_to_0_02(positions, shared, needed):
    """The bias is (1 - u) d / (n + d) for n positions, head dimension d and unbiased CKA u."""
    biased, unbiased = cka_of_random_heads(positions, shared)
    found = positions_needed(biased, unbiased, positions)
    assert found == pytest.approx(needed, rel=0.05)
    biased, unbiased = cka_of_random_heads(found, shared)
    assert biased - unbiased == pytest.approx(0.02, abs=0.001)
    assert positions_needed(0.001, 0.0, 100) == 100, "never fewer positions than measured"


def test_unbiased_cka_is_0_for_a_constant_head_and_none_for_three_positions():
    outputs = torch.randn(1, 2, 4, 3)
    outputs[:, 0] = 1.0
    assert cka_of(outputs).pairs_unbiased[0][1] == 0
    assert cka_of(outputs[:, :, :3]).unbiased_mean is None


# The next tests check that the order and size of batches do not change the moments.


def stream(n, width, offset):
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, width, generator=generator, dtype=torch.float64) + offset


def gathered(parts, width):
    moments = Moments(width)
    for part in parts:
        moments.update(part)
    return moments


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("size", [1, 7, 100, 501])
def test_the_scatter_of_a_stream_equals_two_passes_over_all_data(size, offset):
    x = stream(501, 70, offset)
    centred = x - x.mean(dim=0)
    expected = centred.T @ centred
    shuffled = x[torch.randperm(501, generator=torch.Generator().manual_seed(2))]
    for rows in (x, shuffled):
        moments = gathered(rows.split(size), 70)
        scale = float(expected.abs().max())
        torch.testing.assert_close(moments.scatter(), expected, rtol=0, atol=1e-10 * scale)
        torch.testing.assert_close(moments.mean, x.mean(dim=0), rtol=1e-10, atol=1e-10)
        assert moments.count == 501


def test_columns_that_vary_only_by_rounding_count_as_constant():
    x = stream(50, 3, 0.0).float()
    x[:, 1] = 0.1
    x[::2, 1] = 0.1 + 1e-8  # the next float32, so the column is constant up to rounding
    scatter = gathered([x], 3).scatter()
    assert (scatter[1] == 0).all() and (scatter[:, 1] == 0).all()
    assert (scatter.diagonal()[[0, 2]] > 1).all()


def test_vectors_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN or infinity"):
        Moments(2).update(torch.tensor([[1.0, float("inf")]]))
