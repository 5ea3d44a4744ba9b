"""fairseq's exponential moving average of parameters."""

import pytest
import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema

from tests.toy import build_ours


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tied_weights_decay_once(exact, dtype):
    model = build_ours(share_all_embeddings=True).to(dtype)
    average = build_ema(model, EMAConfig(store_ema=True, ema_decay=0.5, ema_fp32=exact), "cpu")
    before = {name: value.clone() for name, value in average.get_model().state_dict().items()}
    for parameter in model.parameters():
        parameter.data.add_(1.0)
    average.step(model)
    after = average.get_model().state_dict()
    assert after.keys() == before.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        if name.endswith("version"):
            continue
        expected = 0.5 * before[name].float() + 0.5 * value.float()
        torch.testing.assert_close(after[name].float(), expected, rtol=1e-2, atol=1e-2, msg=name)
