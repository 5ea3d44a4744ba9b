"""Batches in two groups by length."""

import random

import torch

from diverse_mha.models.sentence_classifier import split_by_length


def test_the_cut_has_the_fewest_positions():
    generator = random.Random(1)
    for _ in range(200):
        lengths = [generator.randint(1, 12) for _ in range(generator.randint(1, 9))]
        n, longest = len(lengths), max(lengths)
        ordered = sorted(lengths, reverse=True)
        fewest = min((s * longest + (n - s) * ordered[s] for s in range(1, n)), default=n * longest)
        groups = split_by_length(torch.tensor(lengths))
        if fewest >= 0.9 * n * longest or n == 1:
            assert groups is None
            continue
        long, short = (rows.tolist() for rows in groups)
        assert sorted(long + short) == list(range(n)), "every row is in one group"
        assert min(lengths[row] for row in long) >= max(lengths[row] for row in short)
        assert sum(len(g) * max(lengths[row] for row in g) for g in (long, short)) == fewest
