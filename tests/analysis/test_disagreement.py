"""The scores of a data set do not depend on how it is cut into batches."""

import itertools
import math

import pytest
import torch

from diverse_mha.analysis.disagreement import DisagreementMeter
from diverse_mha.analysis.meters import MEASURES
from tests.reference import cosine, cosine_disagreement, position_disagreement
from tests.toy import build_ours, toy_batch


def head_states(model, batch):
    with torch.no_grad():
        return model(**batch["net_input"], return_head_states=MEASURES["disagreement"])[1][
            "head_states"
        ]


def one_sentence(batch, i):
    net_input = {name: value[i : i + 1] for name, value in batch["net_input"].items()}
    return {"net_input": net_input}


def test_whole_batch_and_single_sentences_give_the_same_scores():
    model, batch = build_ours().double().eval(), toy_batch()
    whole, parts = DisagreementMeter(), DisagreementMeter()
    whole.update(head_states(model, batch))
    for i in range(3):
        parts.update(head_states(model, one_sentence(batch, i)))
    for component, scores in whole.result().items():
        for name, score in scores.items():
            other = parts.result()[component][name]
            assert score["off_diagonal"]["layers"] == pytest.approx(
                other["off_diagonal"]["layers"], rel=1e-9
            )
            assert score["layers"] == pytest.approx(other["layers"], rel=1e-9)
            assert score["all"] == pytest.approx(other["all"], rel=1e-9)


def test_scores_are_exp_of_the_literal_sums():
    model, batch = build_ours().double().eval(), toy_batch()
    states = head_states(model, batch)
    meter = DisagreementMeter()
    meter.update(states)
    result = meter.result()
    layers = states["cross"]
    subspace, position, output = [], [], []
    for s in layers:
        queries, keys = s.query_padding_mask, s.key_padding_mask
        subspace.append(float(cosine_disagreement(s.values, keys)))
        position.append(float(position_disagreement(s.weights, queries, keys, "sentence")))
        output.append(float(cosine_disagreement(s.outputs, queries)))
    expected = {"subspace": subspace, "position": position, "output": output}
    for name, values in expected.items():
        score = result["cross"][name]
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


def test_scores_without_the_pairs_of_a_head_with_itself():
    model, batch = build_ours().double().eval(), toy_batch()
    states = head_states(model, batch)
    meter = DisagreementMeter()
    meter.update(states)
    for component in ("encoder", "cross", "decoder"):
        found = meter.result()[component]
        for layer, s in enumerate(states[component]):
            queries, keys = s.query_padding_mask, s.key_padding_mask
            for score, x, mask in (("subspace", s.values, keys), ("output", s.outputs, queries)):
                d = [value for row in between(x, mask, cosine) for value in row]
                expected = math.exp(sum(d) / len(d))
                assert found[score]["off_diagonal"]["layers"][layer] == pytest.approx(expected)
            sentences = [sum(row) for row in between(s.weights, queries, torch.dot)]
            expected = math.exp(sum(sentences) / len(sentences))
            assert found["position"]["off_diagonal"]["layers"][layer] == pytest.approx(expected)
        for score in found.values():
            logs = [math.log(value) for value in score["off_diagonal"]["layers"]]
            mean = math.exp(sum(logs) / len(logs))
            assert score["off_diagonal"]["all"] == pytest.approx(mean)
