"""Invariances of terms on random tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diverse_mha.methods.disagreement import (
    mean_pairwise_cosine,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from diverse_mha.methods.hsic import hsic
from diverse_mha.methods.orthogonality import srip
from tests.properties import PROPERTY

pytestmark = pytest.mark.integration

ON_VECTORS = {
    "subspace": subspace_disagreement,
    "output": output_disagreement,
    "cosine": mean_pairwise_cosine,
    "centred": lambda x, mask: output_disagreement(x, mask, form=("centred",)),
    "off-diagonal": lambda x, mask: output_disagreement(x, mask, form=("off-diagonal",)),
    "squared": lambda x, mask: output_disagreement(x, mask, form=("squared",)),
    "srip-power": srip,
    "srip-exact": lambda x, mask: srip(x, mask, method="exact"),
    "hsic": hsic,
    "hsic-mean": lambda x, mask: hsic(x, mask, normalization="mean"),
}
TERMS = {**ON_VECTORS, "position": lambda x, mask: position_disagreement(x.softmax(-1), mask)}


@st.composite
def inputs(draw, dtype=torch.float64):
    """Draw vectors (B, H, S, D) and a mask (B, S), which may cover whole sentences."""
    shape = [draw(st.integers(1, most)) for most in (3, 5, 6, 5)]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    mask = torch.rand(shape[0], shape[2], generator=generator) < draw(
        st.sampled_from([0.0, 0.3, 0.8, 1.0])
    )
    return x.to(dtype), mask


def value_and_gradient(name, x, mask):
    x = x.clone().requires_grad_()
    value = TERMS[name](x, mask)
    (gradient,) = torch.autograd.grad(value, x, allow_unused=True)
    return value.detach(), torch.zeros_like(x) if gradient is None else gradient


@pytest.mark.parametrize("name", TERMS)
@PROPERTY
@given(data=st.data())
def test_the_order_of_heads_and_sentences_has_no_effect(name, data):
    x, mask = data.draw(inputs())
    heads = list(data.draw(st.permutations(range(x.size(1)))))
    rows = list(data.draw(st.permutations(range(x.size(0)))))
    value, gradient = value_and_gradient(name, x, mask)
    value2, gradient2 = value_and_gradient(name, x[rows][:, heads], mask[rows])
    torch.testing.assert_close(value2, value, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient2, gradient[rows][:, heads], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", TERMS)
@PROPERTY
@given(data=st.data())
def test_more_padding_has_no_effect(name, data):
    """The test adds columns and a sentence of padding, which hold NaN."""
    x, mask = data.draw(inputs())
    extra = data.draw(st.integers(0, 3))
    value, gradient = value_and_gradient(name, x, mask)
    bsz, heads, length, dim = x.shape
    wide = x.new_full((bsz + 1, heads, length + extra, dim), float("nan"))
    wide[:bsz, :, :length] = x
    covered = torch.ones(bsz + 1, length + extra, dtype=torch.bool)
    covered[:bsz, :length] = mask
    value2, gradient2 = value_and_gradient(name, wide, covered)
    torch.testing.assert_close(value2, value, rtol=1e-9, atol=1e-12)
    if name != "position":  # here the softmax of NaN vectors has NaN gradients
        torch.testing.assert_close(gradient2[:bsz, :, :length], gradient, rtol=1e-7, atol=1e-10)
        assert not gradient2[covered.unsqueeze(1).expand(-1, heads, -1)].any()


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@PROPERTY
@given(data=st.data())
def test_values_and_gradients_are_finite_and_in_float32(name, dtype, data):
    """Activations are scaled by 1e-4 to 1e4. A batch of padding gives 0."""
    scale = data.draw(st.sampled_from([1e-4, 1.0, 1e4]))
    x, mask = data.draw(inputs())
    x = (x.clamp(-4, 4) * scale).to(dtype)
    value, gradient = value_and_gradient(name, x, mask)
    assert value.dtype == torch.float32 and value.isfinite()
    assert gradient.dtype == dtype
    if mask.all():
        assert value == 0 and not gradient.any()
    # HSIC grows with the fourth power of activations and SRIP with their square. With scale 1e4
    # their gradients overflow float16, but not bfloat16 and float32.
    if dtype != torch.float16 or scale < 1e4 or not name.startswith(("hsic", "srip")):
        assert gradient.isfinite().all()
