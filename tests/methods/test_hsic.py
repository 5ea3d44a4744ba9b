"""HSIC equals the trace formula, tr(K C K C), of each pair of heads; drawn samples."""

import pytest
import torch

from diverse_mha.methods.hsic import hsic, sample_positions
from tests import reference_diversity as reference
from tests.methods.inputs import EXACT, assert_same, padding, value_and_grad, vectors


def literal(x, mask=None, **options):
    return reference.hsic(reference.real_rows(x, mask), **options)


@pytest.mark.parametrize("normalization", ["mean", "trace"])
@pytest.mark.parametrize("num_heads", [2, 8])
@pytest.mark.parametrize("lengths", [None, [5, 2, 1], [5, 0, 3], [2, 0, 0]])
def test_value_and_gradient_equal_the_trace_formula(lengths, num_heads, normalization):
    mask = None if lengths is None else padding(lengths)
    x = vectors(num_heads=num_heads)
    assert_same(hsic, literal, x, mask, normalization=normalization)


@pytest.mark.parametrize("count", [3, 40])
def test_values_far_below_1_are_exact(count):
    """Rounding below zero is clamped, and nothing else."""
    x = vectors(bsz=1, length=count, scale=0.01)
    value = hsic(x, normalization="trace")
    torch.testing.assert_close(value, literal(x, normalization="trace"), rtol=1e-8, atol=0.0)
    assert 0 < value < 0.01


def test_given_positions_select_the_samples():
    x = vectors()
    positions = torch.tensor([7, 0, 14, 3])  # (sentence, index): (1,2), (0,0), (2,4), (0,3)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[[1, 0, 2, 0], [2, 0, 4, 3]] = False
    picked = value_and_grad(lambda y: hsic(y, positions=positions), x)
    masked = value_and_grad(lambda y: hsic(y, mask), x)
    torch.testing.assert_close(picked, masked, **EXACT)


# Several samples, and values of 0.


@pytest.mark.parametrize("count", [3, 14])
@pytest.mark.parametrize("normalization", ["mean", "trace"])
def test_several_samples_give_the_mean_of_their_values(normalization, count):
    """With 3 positions, HSIC uses kernel matrices; with 14, products of the heads' features."""
    x = torch.cat([vectors(seed=seed) for seed in range(4)])
    samples = torch.randperm(x.size(0) * x.size(2))[: 4 * count].view(4, count)
    options = {"normalization": normalization}

    def one_by_one(y):
        return sum(hsic(y, positions=sample, **options) for sample in samples) / 4

    expected = value_and_grad(one_by_one, x)
    result = value_and_grad(lambda y: hsic(y, positions=samples, **options), x)
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("normalization", ["mean", "trace"])
@pytest.mark.parametrize(
    "num_heads,lengths", [(1, [5, 2, 1]), (4, [0, 1, 0]), (4, [0, 0, 0])], ids=str
)
def test_one_head_or_too_few_samples_give_zero(num_heads, lengths, normalization):
    mask = padding(lengths)
    value, grad = value_and_grad(
        lambda y: hsic(y, mask, normalization=normalization), vectors(num_heads=num_heads)
    )
    assert value == 0 and not grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_heads_give_zero(dtype):
    """Equal vectors are zero after centring."""
    x = vectors(length=1).to(dtype).mean(dim=0, keepdim=True).expand(3, -1, 5, -1)
    value, grad = value_and_grad(lambda y: hsic(y), x)
    assert abs(float(value)) < 1e-10 and float(grad.abs().max()) < 1e-5


# The choice of samples.


def test_drawn_samples_are_real_distinct_and_from_the_default_generator():
    mask = padding([5, 2, 1])
    torch.manual_seed(1)
    draws = [sample_positions(mask, (3, 5), 4, training=True) for _ in range(50)]
    for draw in draws:
        assert len(set(draw.tolist())) == 4
        assert not mask.flatten()[draw].any()
    assert {p for draw in draws for p in draw.tolist()} == {0, 1, 2, 3, 4, 5, 6, 10}
    torch.manual_seed(1)
    assert torch.equal(sample_positions(mask, (3, 5), 4, training=True), draws[0])


@pytest.mark.parametrize("training,samples", [(False, 4), (True, 8), (True, 100)])
def test_no_random_number_is_drawn_in_validation_or_for_all_positions(training, samples):
    mask = padding([5, 2, 1])
    state = torch.get_rng_state()
    positions = sample_positions(mask, (3, 5), samples, training=training)
    assert torch.equal(torch.get_rng_state(), state)
    real = [0, 1, 2, 3, 4, 5, 6, 10]
    # Ordered by index in the sentence, the real positions are 0 5 10, 1 6, 2, 3, 4. Every second
    # position is taken.
    assert positions.tolist() == (real if samples >= 8 else [0, 10, 6, 3])


def test_without_a_mask_every_position_is_real():
    assert sample_positions(None, (2, 3), 10, training=True).tolist() == [0, 1, 2, 3, 4, 5]
    assert sample_positions(None, (2, 3), 2, training=False).tolist() == [0, 4]


def test_validation_samples_cover_all_positions_of_sentences():
    """In the order of sentences, every 8th of 64 x 8 positions would be a sentence's first."""
    positions = sample_positions(None, (64, 8), 64, training=False)
    assert torch.bincount(positions % 8).tolist() == [8] * 8
    assert len(set((positions // 8).tolist())) == 8


BAD = {
    "x has shape (3, 4, 5); expected 4 dimensions": lambda x: hsic(x[..., 0]),
    "normalization is 'sum'; expected one of": lambda x: hsic(x, normalization="sum"),
    "padding_mask has shape (3, 4); expected (3, 5)": lambda x: hsic(x, padding([1, 1, 1], 4)),
    "positions and padding_mask are both given": lambda x: hsic(
        x, padding([1, 1, 1]), positions=torch.tensor([0])
    ),
    "positions has shape (2,) and dtype torch.float32": lambda x: hsic(x, positions=torch.ones(2)),
    "positions has shape (1, 1, 2) and dtype torch.int64; expected (N,) or": lambda x: hsic(
        x, positions=torch.tensor([[[0, 1]]])
    ),
    "samples is 0; expected 1 or more": lambda x: sample_positions(None, (3, 5), 0, training=False),
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_arguments_are_refused(message):
    with pytest.raises(ValueError) as raised:
        BAD[message](vectors())
    assert message in str(raised.value)
