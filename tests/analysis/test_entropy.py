"""Sharpness of attention: against loops over rows, and cases whose value is known."""

import math

import pytest
import torch

from diverse_mha.analysis import attention_entropy
from tests.analysis import reference
from tests.toy import build_ours, toy_batch


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_entropy_is_that_of_the_rows_one_by_one(dtype):
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


def test_even_and_single_weights():
    even = torch.full((1, 1, 2, 8), 1 / 8)
    assert float(attention_entropy(even).entropy) == pytest.approx(math.log(8))
    assert attention_entropy(torch.eye(8)[None, None]) == (0, 1)
    at = torch.tensor([[[[0.95, 0.05]]]], dtype=torch.float64)
    assert float(attention_entropy(at).sharp) == 0, "above 0.95, not at it"


def test_in_training_weights_are_those_before_dropout():
    model = build_ours(attention_dropout=0.5).train()
    batch = toy_batch((5, 4), (4, 5))["net_input"]
    states = model(**batch, return_head_states=("weights",))[1]["head_states"]["encoder"][0]
    rows = states.weights.sum(dim=-1)[~states.query_padding_mask.unsqueeze(1).expand(-1, 4, -1)]
    torch.testing.assert_close(rows, torch.ones_like(rows))
