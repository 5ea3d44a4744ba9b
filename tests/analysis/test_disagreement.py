"""The scores are the sums of the paper; test_collect.py cuts the data into other batches."""

import itertools
import math

import pytest
import torch

from diverse_mha.analysis.collect import HeadsMeter, Selection
from tests.reference import cosine
from tests.toy import build_ours, toy_batch


def literal(x, mask, product, pairs):
    """Minus the mean over pairs of a product of two heads' rows, by sentence and real position."""
    return [
        [
            -sum(float(product(x[b, i, t], x[b, j, t])) for i, j in pairs) / len(pairs)
            for t in range(x.size(2))
            if mask is None or not mask[b, t]
        ]
        for b in range(x.size(0))
    ]


@pytest.mark.parametrize("own", [True, False], ids=["all pairs", "i != j"])
def test_scores_are_exp_of_the_literal_sums(own):
    selection = Selection(measures=("disagreement",))
    model, batch = build_ours().double().eval(), toy_batch()["net_input"]
    with torch.no_grad():
        states = model(**batch, return_head_states=selection.states)[1]["head_states"]
    meter = HeadsMeter(selection)
    meter.update(states)
    pairs = [(i, j) for i, j in itertools.product(range(4), repeat=2) if own or i != j]
    for component, scores in meter.result()["disagreement"].items():
        expected = {"subspace": [], "position": [], "output": []}
        for s in states[component]:
            queries, keys = s.query_padding_mask, s.key_padding_mask
            for score, x, mask in (("subspace", s.values, keys), ("output", s.outputs, queries)):
                d = [value for row in literal(x, mask, cosine, pairs) for value in row]
                expected[score].append(sum(d) / len(d))
            d = [sum(row) for row in literal(s.weights, queries, torch.dot, pairs)]
            expected["position"].append(sum(d) / len(d))
        for name, d in expected.items():
            found = scores[name] if own else scores[name]["off_diagonal"]
            assert found["layers"] == pytest.approx([math.exp(value) for value in d], rel=1e-6)
            assert found["all"] == pytest.approx(math.exp(sum(d) / len(d)), rel=1e-6)
