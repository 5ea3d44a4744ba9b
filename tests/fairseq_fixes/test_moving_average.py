"""fairseq's exponential moving average of parameters."""

import logging
from argparse import Namespace
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from fairseq.trainer import Trainer

from tests.toy import build_ours, build_stock


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


class Loading(Trainer):
    """A trainer that can only load a checkpoint."""

    def __init__(self, model, average):
        self.cfg = mock.MagicMock(ema=average, model=Namespace())
        self.cfg.checkpoint.load_checkpoint_on_all_dp_ranks = False
        self.cfg.common.tpu, self.tpu = False, False
        self._model = self._wrapped_model = model
        self._criterion = self._wrapped_criterion = torch.nn.Identity()
        self._ema, self._num_updates, self.device = None, 0, torch.device("cpu")

    data_parallel_rank, data_parallel_world_size, is_fsdp = 0, 1, False

    def lr_step(self, *_):
        pass


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kept", [False, True], ids=["no-average", "average"])
@pytest.mark.parametrize("warm", [False, True], ids=["resumed", "warm"])
def test_an_average_starts_from_the_weights_of_a_checkpoint_without_one(
    warm, kept, exact, tmp_path, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)
    saved = (build_stock(2) if warm else build_ours("transformer_routing", 2)).state_dict()
    extra = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}}
    if kept:
        extra["ema"] = {name: value * 2 for name, value in saved.items()}
    state = {"model": saved, "extra_state": extra, "optimizer_history": []}
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", lambda *_, **__: state)
    (tmp_path / "a.pt").touch()
    model = build_ours("transformer_routing", 1)
    trainer = Loading(model, EMAConfig(store_ema=True, ema_decay=0.5, ema_fp32=exact))
    with model.loading("a.pt", warm):
        trainer.load_checkpoint(str(tmp_path / "a.pt"))
    averages = trainer.ema.get_model().state_dict()
    for name, value in model.state_dict().items():
        expected = value * 2 if kept and name in saved else value
        assert torch.equal(averages[name], expected), name
        if exact:
            assert torch.equal(trainer.ema.fp32_params[name], expected), name
    trainer.ema.step(model)
    assert caplog.text.count("warm start") == warm
    assert caplog.text.count("holds no moving average") == (not kept)
