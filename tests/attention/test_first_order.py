"""Second derivatives of hand-written gradients are refused, not silently wrong."""

import re
from pathlib import Path

import pytest
import torch

from diverse_mha.criterions.fused_loss import fused_label_smoothed_loss
from diverse_mha.methods.coda import build_cascade
from diverse_mha.methods.disagreement import (
    mean_squared_cosine,
    output_disagreement,
    position_disagreement,
)
from diverse_mha.methods.hsic import hsic
from diverse_mha.methods.orthogonality import srip
from diverse_mha.methods.routing import RoutingAggregation

WORDS = torch.tensor([2, 5, 3])


def cascade(x):
    module = build_cascade("mlp", 4)
    return module(x, x).sum()


def routing(x):
    return RoutingAggregation(20, 4)(x.reshape(-1, 20)).sum()


def token_loss(x):
    return fused_label_smoothed_loss(x[0, 0], x[0].flatten(0, 1)[:6], WORDS, 0.1, 1)[0]


# Every class with a hand-written gradient, and a function of (B, H, L, D) that uses it.
USERS = {
    "ChunkedNetwork": cascade,
    "_Recomputed": routing,
    "_FusedLoss": token_loss,
    "_MeanSquaredCosine": mean_squared_cosine,
    "_MeanHSIC": hsic,
    "_MeanSRIP": srip,
    "MeanPairwiseCosine": output_disagreement,
}
# Tested in another file, because it needs a GPU or Triton's interpreter.
ELSEWHERE = {"TiledNetwork"}


def heads():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 4, 3, 5, generator=generator).requires_grad_()


def test_every_hand_written_gradient_is_in_the_table_of_this_test():
    source = "".join(p.read_text() for p in Path("diverse_mha").rglob("*.py"))
    assert (
        set(re.findall(r"class (\w+)\(torch\.autograd\.Function\)", source))
        == set(USERS) | ELSEWHERE
    )


@pytest.mark.parametrize("name", USERS)
def test_second_derivatives_are_refused(name):
    x = heads()
    (grad,) = torch.autograd.grad(USERS[name](x), x)
    assert not grad.requires_grad and grad.abs().sum() > 0
    # With another term, a gradient without graph would silently count as a constant.
    value = USERS[name](x) + x.square().sum()
    with pytest.raises(RuntimeError, match=f"{name.lstrip('_')}: create_graph=True: second deriv"):
        torch.autograd.grad(value, x, create_graph=True)


def test_autograd_terms_have_second_derivatives():
    logits = torch.randn(1, 3, 2, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: position_disagreement(x.softmax(dim=-1)), logits)
