"""Pooling of padded sentences equals loops over their real positions."""

import math

import pytest
import torch

from diverse_mha.models.sentence_classifier import MeanPooling, QueryPooling

LENGTHS = (5, 1, 3)
WIDTH = 4


def batch(padding: int = 0):
    """Return random vectors (3, 5 + padding, 4) and their mask; added padding holds 1000."""
    size = max(LENGTHS) + padding
    x = torch.randn(3, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = torch.cat([x, torch.full((3, padding, WIDTH), 1e3, dtype=torch.float64)], dim=1)
    mask = torch.arange(size)[None] >= torch.tensor(LENGTHS)[:, None]
    return x, mask


def query_pooling(queries: int = 2) -> QueryPooling:
    torch.manual_seed(2)
    return QueryPooling(WIDTH, queries).double()


def test_mean_pooling_equals_a_loop():
    x, mask = batch()
    pooled = MeanPooling(WIDTH)(x, mask)
    for row, length in enumerate(LENGTHS):
        for c in range(WIDTH):
            mean = sum(float(x[row, s, c]) for s in range(length)) / length
            assert float(pooled[row, c]) == pytest.approx(mean, rel=1e-12)


def test_query_pooling_equals_a_loop():
    x, mask = batch()
    pooling = query_pooling()
    pooled = pooling(x, mask)
    assert pooled.shape == (3, pooling.output_dim) == (3, 8)
    for row, length in enumerate(LENGTHS):
        for k, query in enumerate(pooling.queries.tolist()):
            scores = [
                sum(q * v for q, v in zip(query, x[row, s].tolist(), strict=True))
                / math.sqrt(WIDTH)
                for s in range(length)
            ]
            total = sum(math.exp(score) for score in scores)
            for c in range(WIDTH):
                value = sum(
                    math.exp(scores[s]) / total * float(x[row, s, c]) for s in range(length)
                )
                # The softmax is in float32.
                assert float(pooled[row, k * WIDTH + c]) == pytest.approx(value, abs=1e-6)


def test_only_padding_gives_0_by_mean_pooling_and_the_mean_by_query_pooling():
    x, _ = batch()
    mask = torch.ones(3, 5, dtype=torch.bool)
    assert not MeanPooling(WIDTH)(x, mask).any()
    pooled = query_pooling()(x, mask)
    torch.testing.assert_close(pooled[:, :WIDTH], x.mean(dim=1), rtol=0, atol=1e-6)
