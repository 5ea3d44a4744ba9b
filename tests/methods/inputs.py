"""Head vectors, masks and comparisons for tests of terms."""

import torch

EXACT = {"rtol": 1e-9, "atol": 1e-12}


def vectors(bsz=3, num_heads=4, length=5, head_dim=6, scale=1.0, dtype=torch.float64, seed=0):
    """Return random head vectors (B, H, L, D), a view of (B, L, H, D) as in models."""
    generator = torch.Generator().manual_seed(seed)
    shape = (bsz, length, num_heads, head_dim)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (scale * x.transpose(1, 2)).to(dtype)


def padding(lengths, total=5):
    return torch.arange(total)[None, :] >= torch.tensor(lengths)[:, None]


def value_and_grad(function, x, *args, **kwargs):
    x = x.detach().clone().requires_grad_()
    value = function(x, *args, **kwargs)
    (grad,) = torch.autograd.grad(value, x)
    return value.detach(), grad


def assert_same(function, oracle, x, *args, **kwargs):
    """Assert equal values and gradients of two functions."""
    result = value_and_grad(function, x, *args, **kwargs)
    expected = value_and_grad(oracle, x, *args, **kwargs)
    torch.testing.assert_close(result, expected, **EXACT)
