"""The three disagreement terms equal their double sums and known values."""

import math

import pytest
import torch

from diverse_mha.methods.disagreement import (
    disagreement_scores,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from tests import reference
from tests.methods.inputs import EXACT, assert_same, padding, value_and_grad, vectors

COSINE_TERMS = [subspace_disagreement, output_disagreement]


def attention(bsz=3, num_heads=4, tgt_len=5, src_len=6, key_padding_mask=None, seed=0):
    logits = vectors(bsz, num_heads, tgt_len, src_len, seed=seed)
    if key_padding_mask is not None:
        logits = logits.masked_fill(key_padding_mask[:, None, None, :], -math.inf)
    return logits.softmax(dim=-1)


# Equality with the double sums.


def of_heads(*lengths):
    """Return a decorator that sets num_heads and lengths; 16 heads have only the last lengths."""
    pairs = [(heads, some) for heads in (1, 2, 8) for some in lengths]
    return pytest.mark.parametrize("num_heads, lengths", [*pairs, (16, lengths[-1])])


@pytest.mark.parametrize("term", COSINE_TERMS)
@of_heads(None, [5, 2, 1], [5, 0, 3])
def test_cosine_terms_equal_the_double_sum(term, num_heads, lengths):
    mask = None if lengths is None else padding(lengths, 5)
    assert_same(term, reference.cosine_disagreement, vectors(num_heads=num_heads), mask)


@pytest.mark.parametrize("reduction", ["query", "sentence"])
@of_heads(None, ([5, 2, 1], [6, 3, 4]), ([5, 0, 3], [2, 6, 1]))
def test_position_term_equals_the_double_sum(num_heads, reduction, lengths):
    query_mask, key_mask = (
        (None, None) if lengths is None else (padding(lengths[0], 5), padding(lengths[1], 6))
    )
    weights = attention(num_heads=num_heads, key_padding_mask=key_mask)
    assert_same(
        position_disagreement,
        reference.position_disagreement,
        weights,
        query_mask,
        key_mask,
        reduction=reduction,
    )


@pytest.mark.parametrize("term", COSINE_TERMS)
def test_permuted_views_and_large_inputs_give_the_same_values(term):
    """Inputs are views (B, H, T, D) of (T, B, H*D), large enough for several chunks."""
    length, bsz, num_heads, head_dim = 64, 33, 8, 64
    flat = torch.randn(length, bsz, num_heads * head_dim, dtype=torch.float64)
    view = flat.view(length, bsz, num_heads, head_dim).permute(1, 2, 0, 3)
    value, grad = value_and_grad(lambda x: term(x), view)
    units = view / view.norm(dim=-1, keepdim=True)
    gram = torch.einsum("bhsd,bgsd->bhgs", units, units)
    torch.testing.assert_close(value, -gram.mean(), **EXACT)
    _, part = value_and_grad(lambda x: term(x), view[:1].contiguous())
    torch.testing.assert_close(grad[:1] * bsz, part, **EXACT)


FORMS = [(), ("centred",), ("off-diagonal",), ("squared",), ("centred", "off-diagonal"),
         ("centred", "squared")]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids="+".join)
@pytest.mark.parametrize("num_heads", [1, 2, 5])
@pytest.mark.parametrize("lengths", [None, [5, 0, 3]])
def test_forms_equal_the_double_sum(form, num_heads, lengths):
    mask = None if lengths is None else padding(lengths, 5)
    x = 0.5 + vectors(num_heads=num_heads)
    x[0, 0, 1] = x[2, :, 0] = 0.0
    for term in COSINE_TERMS:
        assert_same(term, reference.cosine_disagreement, x, mask, form=form)


@pytest.mark.parametrize("reduction", ["query", "sentence"])
@pytest.mark.parametrize(
    "form",
    [("off-diagonal",), ("squared-difference",), ("off-diagonal", "squared-difference")],
    ids="+".join,
)
def test_forms_of_the_position_term_equal_the_double_sum(form, reduction):
    masks = (padding([5, 0, 3], 5), padding([2, 6, 1], 6))
    weights = attention(key_padding_mask=masks[1]).masked_fill(masks[0][:, None, :, None], math.nan)
    assert_same(
        position_disagreement, reference.position_disagreement, weights, *masks,
        reduction=reduction, form=form,
    )  # fmt: skip
    assert_same(  # weights that are not 0 at padded keys
        position_disagreement, reference.position_disagreement, attention(), *masks,
        reduction=reduction, form=form,
    )  # fmt: skip
    weights = attention().requires_grad_()
    assert torch.autograd.gradcheck(lambda w: position_disagreement(w, form=form), weights)


def test_the_scale_of_heads_does_not_change_a_centred_term():
    mask, x, form = padding([5, 2, 1], 5), vectors(), ("centred",)
    scale = torch.tensor([1e-9, 1.0, 1e9, 1e18], dtype=torch.float64)[None, :, None, None]
    torch.testing.assert_close(
        output_disagreement(scale * x, mask, form=form),
        output_disagreement(x, mask, form=form),
        **EXACT,
    )


@pytest.mark.parametrize("form", [(), ("off-diagonal",), ("squared",), ("centred",)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_overflow_is_not_read_as_diverse_heads(form, dtype):
    """Norms of 1e30 overflow. D was 0, its optimum; NaN ends a training with a message."""
    x = vectors(scale=1e30, dtype=dtype)
    x[:, 1:] = x[:, :1]
    assert output_disagreement(x, form=form).isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [3, 5, 7, 8192])
def test_rounding_errors_of_centring_count_as_zero(length, dtype):
    """The computed mean of equal vectors differs from the vectors by rounding."""
    x = vectors(bsz=1, length=1, dtype=dtype).expand(2, -1, length, -1)
    value, grad = value_and_grad(subspace_disagreement, x, form=("centred",))
    assert value == 0 and not grad.any()


def test_unknown_forms_are_refused():
    with pytest.raises(ValueError, match="form has 'square'; expected some of"):
        subspace_disagreement(vectors(), form=("square",))
    with pytest.raises(ValueError, match="form has 'squared' and 'off-diagonal'"):
        output_disagreement(vectors(), form=("off-diagonal", "squared"))
    with pytest.raises(ValueError, match="form has 'centred'; expected some of"):
        position_disagreement(attention(), form=("centred",))


# Values computed by hand.


def test_scores_of_perpendicular_heads_match_the_paper():
    """Li et al. 2018, Table 4: 0.882 = exp(-1/8) for 8 heads trained without the term."""
    x = torch.eye(8)[None, :, None, :].expand(2, -1, 4, -1)
    scores = disagreement_scores(values=x, outputs=x)
    assert set(scores) == {"subspace", "output"}
    assert scores["subspace"].item() == pytest.approx(0.8825, abs=1e-4)
    assert scores["output"].item() == pytest.approx(0.8825, abs=1e-4)


def test_scores_use_the_right_mask_and_reduction_for_each_term():
    query_mask, key_mask = padding([5, 2, 1], 5), padding([6, 3, 4], 6)
    values, outputs = vectors(length=6), vectors(length=5, seed=1)
    weights = attention(key_padding_mask=key_mask).requires_grad_()
    scores = disagreement_scores(values, weights, outputs, query_mask, key_mask)
    expected = {
        "subspace": reference.cosine_disagreement(values, key_mask).exp(),
        "position": reference.position_disagreement(
            weights.detach(), query_mask, key_mask, reduction="sentence"
        ).exp(),
        "output": reference.cosine_disagreement(outputs, query_mask).exp(),
    }
    torch.testing.assert_close(scores, expected, **EXACT)
    assert not scores["position"].requires_grad


# Numerics.


def test_padding_alone_gives_zero_with_reduction_sentence():
    mask = torch.ones(3, 5, dtype=torch.bool)
    value, grad = value_and_grad(position_disagreement, attention(), mask, reduction="sentence")
    assert value.item() == 0.0 and not grad.any()


X, WEIGHTS = vectors(), attention()
BAD = {
    "values has shape (4, 5, 6); expected 4 dim": lambda: subspace_disagreement(X[0]),
    "outputs has dtype torch.int64": lambda: output_disagreement(X.long()),
    "values has shape (3, 0, 5, 6), so no head": lambda: subspace_disagreement(X[:, :0]),
    "padding_mask has shape (5, 3); expected (3, 5)": lambda: output_disagreement(
        X, torch.zeros(5, 3, dtype=torch.bool)
    ),
    "reduction is 'mean'; expected one of ('query', 'sent": lambda: position_disagreement(
        WEIGHTS, reduction="mean"
    ),
    "query_padding_mask has shape (3, 6); expected (3, 5": lambda: position_disagreement(
        WEIGHTS, padding([6, 6, 6], 6)
    ),
    "key_padding_mask has shape (3, 5); expected (3, 6": lambda: position_disagreement(
        WEIGHTS, None, padding([5, 5, 5], 5)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_arguments_are_refused(message):
    with pytest.raises(ValueError) as raised:
        BAD[message]()
    assert message in str(raised.value)
