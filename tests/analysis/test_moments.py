"""A stream gives what one batch gives, in any order and however it is cut."""

import pytest
import torch

from diverse_mha.analysis import Moments


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
def test_batches_of_any_size_and_order_give_the_two_pass_scatter(size, offset):
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


def test_what_varies_by_rounding_only_counts_as_constant():
    x = stream(50, 3, 0.0).float()
    x[:, 1] = 0.1
    x[::2, 1] = 0.1 + 1e-8  # half a unit in the last place of float32, lost in storing
    scatter = gathered([x], 3).scatter()
    assert (scatter[1] == 0).all() and (scatter[:, 1] == 0).all()
    assert (scatter.diagonal()[[0, 2]] > 1).all()


def test_vectors_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN or infinity"):
        Moments(2).update(torch.tensor([[1.0, float("inf")]]))
