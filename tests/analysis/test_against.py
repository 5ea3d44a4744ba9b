"""One model's heads beside another's: the tensor functions, and the same rows."""

import pytest
import torch

from diverse_mha.analysis import cka, svcca
from diverse_mha.analysis.against import AgainstMeter
from diverse_mha.analysis.collect import Selection
from diverse_mha.analysis.meters import real_rows
from tests.toy import build_ours, toy_batch


def test_last_layers_are_compared_over_the_same_positions():
    single = build_ours(seed=2, encoder_attention_heads=1, decoder_attention_heads=1).eval()
    model, lengths = build_ours().eval(), [20, 17, 25, 13]
    meter = AgainstMeter(Selection(threshold=0.9))
    rows = {}
    for seed in (1, 2):
        batch = toy_batch(lengths, lengths[::-1], seed=seed)["net_input"]
        with torch.no_grad():
            states, other = (
                m(**batch, return_head_states=("outputs",))[1]["head_states"]
                for m in (model, single)
            )
        meter.update(states, other)
        for component in states:
            pair = real_rows(states[component][-1]), real_rows(other[component][-1])
            rows.setdefault(component, []).append(pair)
    for component, found in meter.result().items():
        own, others = (torch.cat(side) for side in zip(*rows[component], strict=True))
        together = svcca(own, others, 0.9)
        each = [svcca(head, others, 0.9).mean for head in own.chunk(4, dim=1)]
        assert found["layer"] == 2
        assert found["cka"] == pytest.approx(cka(own, others), rel=1e-9)
        assert found["svcca"] == pytest.approx(together.mean, rel=1e-7)
        assert found["coefficients"] == pytest.approx(together.coefficients.tolist(), rel=1e-6)
        assert found["svcca_top"] == pytest.approx(together.top_mean, rel=1e-7)
        assert found["svcca_heads"] == pytest.approx(each, rel=1e-7)
        assert found["svcca_each"] == pytest.approx(sum(each) / 4, rel=1e-7)
    assert set(rows) == set(meter.result()) == {"encoder", "cross", "decoder"}
