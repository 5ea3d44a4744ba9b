"""One model's heads beside another's: the tensor functions, and the same rows."""

from types import SimpleNamespace

import pytest
import torch

from diverse_mha.analysis import cka, svcca
from diverse_mha.analysis.against import AgainstMeter, check_same_data
from diverse_mha.analysis.collect import Selection
from diverse_mha.analysis.meters import real_rows
from diverse_mha.common.errors import UserError
from tests.toy import build_ours, toy_batch


def test_models_of_other_data_are_no_pair():
    def model(path, target="de"):
        cfg = SimpleNamespace(source_lang="en", target_lang=target)
        return SimpleNamespace(path=path, model=None, task=SimpleNamespace(cfg=cfg))

    everything = {"encoder": 2, "cross": 2, "decoder": 2}
    one, other, french = model("one.pt"), model("other.pt"), model("fr.pt", "fr")
    check_same_data(one, other, everything, everything, Selection())
    check_same_data(one, other, everything, {"decoder": 2}, Selection(("decoder",)))
    with pytest.raises(UserError, match="--against other.pt: does not read the same data as one"):
        check_same_data(one, other, everything, {"decoder": 2}, Selection())
    with pytest.raises(UserError, match="--against fr.pt: does not read the same data as one.pt"):
        check_same_data(one, french, everything, everything, Selection())


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
