"""Terms multiply in float32 under autocast, also on a GPU."""

from functools import partial

import pytest
import torch
from torch.overrides import TorchFunctionMode

from diverse_mha.methods.cka import cka
from diverse_mha.methods.disagreement import (
    centre,
    mean_pairwise_cosine,
    mean_squared_cosine,
    position_disagreement,
)
from diverse_mha.methods.hsic import hsic
from diverse_mha.methods.orthogonality import srip
from tests.methods.inputs import padding, value_and_grad, vectors

# Some of the functions that torch's autocast computes in half precision on a GPU.
ROUNDED = {"matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "linalg_vecdot"}
TERMS = {
    "cosine": mean_pairwise_cosine,
    "off-diagonal": partial(mean_pairwise_cosine, off_diagonal=True),
    "squared": mean_squared_cosine,
    "centred": lambda x, mask: centre(x, mask).sum(),
    "position": position_disagreement,
    "hsic": hsic,
    "cka": cka,
    "srip": srip,
    "srip-exact": partial(srip, method="exact"),
}


class _Products(TorchFunctionMode):
    """Records the names of products that run under autocast."""

    def __init__(self):
        super().__init__()
        self.rounded = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ROUNDED and torch.is_autocast_enabled("cpu"):
            self.rounded.add(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("term", TERMS)
def test_terms_compute_no_product_under_autocast(term):
    x = vectors(dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16), _Products() as products:
        TERMS[term](x, padding([5, 2, 1]))
    assert products.rounded == set()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("term", [hsic, srip])
def test_hsic_and_srip_are_computed_in_float32(term, dtype):
    x = vectors().to(dtype)
    expected, expected_grad = value_and_grad(term, x.double())
    with torch.autocast("cpu", torch.bfloat16):
        value, grad = value_and_grad(term, x)
    assert value.dtype == torch.float32 and grad.dtype == dtype
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(grad.double(), expected_grad, rtol=4 * eps, atol=1e-5 + eps)
