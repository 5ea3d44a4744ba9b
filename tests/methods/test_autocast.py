"""Under autocast no product of a term is left to it: a GPU rounds more of them than a CPU."""

from functools import partial

import pytest
import torch
from torch.overrides import TorchFunctionMode

from diverse_mha.methods.disagreement import (
    centre,
    mean_pairwise_cosine,
    mean_squared_cosine,
    position_disagreement,
)
from diverse_mha.methods.hsic import hsic
from diverse_mha.methods.orthogonality import srip
from tests.methods.inputs import padding, vectors

# Of those that torch's autocast computes in half precision on a GPU.
ROUNDED = {"matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "linalg_vecdot"}
TERMS = {
    "cosine": mean_pairwise_cosine,
    "off-diagonal": partial(mean_pairwise_cosine, off_diagonal=True),
    "squared": mean_squared_cosine,
    "centred": lambda x, mask: centre(x, mask).sum(),
    "position": position_disagreement,
    "hsic": hsic,
    "srip": srip,
    "srip-exact": partial(srip, method="exact"),
}


class _Products(TorchFunctionMode):
    """Keeps the names of products that run while autocast is on."""

    def __init__(self):
        super().__init__()
        self.rounded = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ROUNDED and torch.is_autocast_enabled("cpu"):
            self.rounded.add(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("term", TERMS)
def test_no_product_is_left_to_autocast(term):
    x = vectors(dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16), _Products() as products:
        TERMS[term](x, padding([5, 2, 1]))
    assert products.rounded == set()
