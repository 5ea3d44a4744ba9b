"""The scores are the sums of the paper; test_collect.py cuts the data into other batches."""

import itertools
import math

import pytest
import torch

from diverse_mha.analysis.collect import HeadsMeter, Selection
from tests.reference import cosine, cosine_disagreement, position_disagreement
from tests.toy import build_ours, toy_batch

SELECTION = Selection(measures=("disagreement",))


@pytest.fixture(scope="module")
def states():
    model, batch = build_ours().double().eval(), toy_batch()["net_input"]
    with torch.no_grad():
        return model(**batch, return_head_states=SELECTION.states)[1]["head_states"]


@pytest.fixture(scope="module")
def found(states):
    meter = HeadsMeter(SELECTION)
    meter.update(states)
    return meter.result()["disagreement"]


def test_scores_are_exp_of_the_literal_sums(states, found):
    layers = states["cross"]
    subspace, position, output = [], [], []
    for s in layers:
        queries, keys = s.query_padding_mask, s.key_padding_mask
        subspace.append(float(cosine_disagreement(s.values, keys)))
        position.append(float(position_disagreement(s.weights, queries, keys, "sentence")))
        output.append(float(cosine_disagreement(s.outputs, queries)))
    expected = {"subspace": subspace, "position": position, "output": output}
    for name, values in expected.items():
        score = found["cross"][name]
        assert score["layers"] == pytest.approx([math.exp(v) for v in values], rel=1e-6)
        assert score["all"] == pytest.approx(math.exp(sum(values) / len(values)), rel=1e-6)


def between(x, mask, product):
    """-1/(H (H - 1)) sum_{i != j} of a product of two heads' rows, at each real position."""
    pairs = list(itertools.permutations(range(x.size(1)), 2))
    return [
        [
            -sum(float(product(x[b, i, t], x[b, j, t])) for i, j in pairs) / len(pairs)
            for t in range(x.size(2))
            if mask is None or not mask[b, t]
        ]
        for b in range(x.size(0))
    ]


def test_scores_without_the_pairs_of_a_head_with_itself(states, found):
    for component, scores in found.items():
        for layer, s in enumerate(states[component]):
            queries, keys = s.query_padding_mask, s.key_padding_mask
            for score, x, mask in (("subspace", s.values, keys), ("output", s.outputs, queries)):
                d = [value for row in between(x, mask, cosine) for value in row]
                expected = math.exp(sum(d) / len(d))
                assert scores[score]["off_diagonal"]["layers"][layer] == pytest.approx(expected)
            sentences = [sum(row) for row in between(s.weights, queries, torch.dot)]
            expected = math.exp(sum(sentences) / len(sentences))
            assert scores["position"]["off_diagonal"]["layers"][layer] == pytest.approx(expected)
        for score in scores.values():
            logs = [math.log(value) for value in score["off_diagonal"]["layers"]]
            mean = math.exp(sum(logs) / len(logs))
            assert score["off_diagonal"]["all"] == pytest.approx(mean)
