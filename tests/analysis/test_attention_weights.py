"""Divergence and entropy of attention weights equal explicit loops and closed forms."""

import math

import pytest
import torch

from diverse_mha.analysis import attention_entropy, jensen_shannon
from diverse_mha.measures import attention_weights as module
from tests.analysis import reference
from tests.toy import build_ours, toy_batch


def random_weights(bsz=3, heads=4, tgt=5, src=6, seed=1, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(bsz, heads, tgt, src, generator=generator, dtype=dtype)
    queries = torch.arange(tgt) >= torch.tensor([5, 2, 4]).unsqueeze(1)
    keys = torch.arange(src) >= torch.tensor([6, 3, 5]).unsqueeze(1)
    weights = logits.masked_fill(keys[:, None, None], -math.inf).softmax(dim=-1)
    return weights, queries, keys


@pytest.mark.parametrize("reduction", ["sentence", "row"])
@pytest.mark.parametrize("chunk", [1, 60, 2**20])
def test_divergence_equals_the_reference_in_explicit_loops(reduction, chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    weights, queries, keys = random_weights()
    expected = torch.zeros(4, 4, dtype=torch.float64)
    for i in range(4):
        for j in range(4):
            for b in range(3):
                for t in range(5):
                    if not queries[b, t]:
                        p, q = weights[b, i, t].tolist(), weights[b, j, t].tolist()
                        expected[i, j] += reference.jensen_shannon(p, q)
    expected /= 3 if reduction == "sentence" else 5 + 2 + 4
    found = jensen_shannon(weights, queries, keys, reduction)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_divergence_of_identical_heads_is_0_and_of_disjoint_heads_ln_2():
    one_hot = torch.eye(4).expand(2, 3, 4, 4)[:, :, :2]  # (B=2, H=3, T=2, S=4)
    assert (jensen_shannon(one_hot, reduction="row") == 0).all()
    apart = torch.stack((one_hot[:, 0], one_hot[:, 0].roll(2, dims=-1)), dim=1)
    found = jensen_shannon(apart, reduction="row")
    torch.testing.assert_close(found[0, 1].item(), math.log(2), rtol=1e-7, atol=0)
    # The divergence is summed over the two rows of each sentence.
    assert jensen_shannon(apart)[0, 1].item() == pytest.approx(2 * math.log(2), rel=1e-7)


def test_divergence_is_0_without_real_queries_and_for_one_head():
    weights, queries, keys = random_weights()
    assert (jensen_shannon(weights, torch.ones_like(queries), keys) == 0).all()
    assert jensen_shannon(weights[:, :1]).tolist() == [[0.0]]


def test_half_precision_is_computed_in_float32():
    weights, queries, keys = random_weights(dtype=torch.float64)
    half = weights.to(torch.bfloat16)
    found, expected = jensen_shannon(half), jensen_shannon(half.double())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_invalid_arguments_are_refused():
    weights, queries, keys = random_weights()
    with pytest.raises(ValueError, match=r"reduction 'token': choose from \('sentence', 'row'\)"):
        jensen_shannon(weights, reduction="token")
    with pytest.raises(ValueError, match=r"query_padding_mask has shape"):
        jensen_shannon(weights, keys)
    with pytest.raises(ValueError, match=r"expected 4 dimensions \(B, H, T, S\)"):
        jensen_shannon(weights[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_entropy_and_share_of_sharp_rows_equal_the_reference(dtype):
    torch.manual_seed(1)
    logits = torch.randn(3, 4, 5, 6, dtype=dtype) * torch.tensor([0.1, 1, 4, 30]).view(4, 1, 1)
    queries = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]).bool()
    keys = torch.tensor([[0] * 6, [0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1]]).bool()
    weights = logits.masked_fill(keys[:, None, None], -1e4).softmax(dim=-1)
    weights = weights.masked_fill(queries[:, None, :, None], math.nan)
    found = attention_entropy(weights, queries, keys)
    for head in range(4):
        entropy, sharp = reference.sharpness(
            weights[:, head].tolist(), (~queries).tolist(), (~keys).tolist()
        )
        assert float(found.entropy[head]) == pytest.approx(entropy, rel=1e-6, abs=1e-7)
        assert float(found.sharp[head]) == pytest.approx(sharp)
    assert 0 < float(found.sharp[3]) and float(found.sharp[0]) == 0


def test_entropy_is_maximal_for_uniform_weights_and_0_for_one_hot_weights():
    even = torch.full((1, 1, 2, 8), 1 / 8)
    assert float(attention_entropy(even).entropy) == pytest.approx(math.log(8))
    assert attention_entropy(torch.eye(8)[None, None]) == (0, 1)
    at = torch.tensor([[[[0.95, 0.05]]]], dtype=torch.float64)
    assert float(attention_entropy(at).sharp) == 0, "a weight of exactly 0.95 is not sharp"


def test_attention_weights_in_training_are_returned_before_dropout():
    model = build_ours(attention_dropout=0.5).train()
    batch = toy_batch((5, 4), (4, 5))["net_input"]
    states = model(**batch, return_head_states=("weights",))[1]["head_states"]["encoder"][0]
    rows = states.weights.sum(dim=-1)[~states.query_padding_mask.unsqueeze(1).expand(-1, 4, -1)]
    torch.testing.assert_close(rows, torch.ones_like(rows))
