"""State of half-precision training in checkpoints."""

import copy
import weakref
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.tasks import FairseqTask

import diverse_mha.fairseq_fixes.install  # noqa: F401
from diverse_mha.tasks import exact_resume
from diverse_mha.tasks.exact_resume import HalfPrecisionState
from tests.fairseq_fixes.training import training


class Stock(FairseqTask):
    def __init__(self):
        super().__init__(None)

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        return update_num, ignore_grad


class Task(HalfPrecisionState, Stock):
    pass


def optimizer(seed=0, flat=False, dtype=torch.bfloat16, scaler=None):
    generator = torch.Generator().manual_seed(seed)
    masters = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in (3, 5)]
    halves = [p.detach().to(dtype) for p in masters]
    return SimpleNamespace(
        fp16_params=halves,
        fp32_params={0: torch.nn.Parameter(torch.cat(list(masters)))} if flat else masters,
        scaler=scaler,
    )


def loaded(other):
    """Return the optimizer that fairseq builds from the rounded weights of a checkpoint."""
    flat = isinstance(other.fp32_params, dict)
    new = optimizer(seed=1, flat=flat, dtype=other.fp16_params[0].dtype, scaler=other.scaler)
    sources = [torch.cat(other.fp16_params)] if flat else other.fp16_params
    for p, half in zip(values(new), sources, strict=True):
        p.data.copy_(half)
    new.fp16_params = other.fp16_params
    return new


def step(task, optimizer):
    return task.train_step({}, torch.nn.Linear(1, 1), None, optimizer, 7, ignore_grad=True)


def values(optimizer):
    masters = optimizer.fp32_params
    return list(masters.values()) if isinstance(masters, dict) else masters


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_float32_master_weights_survive_a_resume(flat, dtype):
    before, task = optimizer(flat=flat, dtype=dtype), Task()
    assert step(task, before) == (7, True)
    saved = task.get_checkpoint_dict()["Task"]
    after, resumed = loaded(before), Task()
    assert not all(torch.equal(a, b) for a, b in zip(values(after), values(before), strict=True)), (
        "rounding changes the weights"
    )
    resumed.set_checkpoint_dict(saved)
    assert resumed.get_checkpoint_dict()["Task"] is saved, "unused state is saved again"
    step(resumed, after)
    for a, b in zip(values(after), values(before), strict=True):
        assert torch.equal(a, b)
        a.data.add_(1.0)  # a stand-in for an update
    now = resumed.get_checkpoint_dict()["Task"]["fp32_params"]
    assert all(torch.equal(p, kept) for p, kept in zip(values(after), now, strict=True)), (
        "the new state is saved, not that of the checkpoint"
    )


@pytest.mark.parametrize(
    "reset", [[], ["dataloader"], ["optimizer"], ["dataloader", "optimizer"]], ids=str
)
def test_float32_master_weights_survive_a_reset_of_position_or_optimizer(reset, tmp_path):
    """Fairseq restores the state of a task only together with the position."""
    before, task = optimizer(), Task()
    step(task, before)
    cfg, trainer = training(tmp_path, **{f"reset_{what}": True for what in reset})
    trainer.task, after = Task(), loaded(before)
    position = {"train_iterator": {"epoch": 3}}
    trainer.load_checkpoint.return_value = position | copy.deepcopy(task.get_checkpoint_dict())
    checkpoint_utils.load_checkpoint(cfg, trainer)
    step(trainer.task, after)
    assert all(torch.equal(a, b) for a, b in zip(values(after), values(before), strict=True))


@pytest.mark.parametrize("reset", [False, True])
def test_a_plugins_state_of_a_task_is_restored_with_the_position_only(reset, tmp_path):
    """It may be a position in the data."""

    class Plugin:
        set_checkpoint_dict = mock.Mock()

    cfg, trainer = training(tmp_path, reset_dataloader=reset)
    trainer.task = Plugin()
    extra = {"train_iterator": {"epoch": 3}, "Plugin": {"shard": 2}}
    trainer.load_checkpoint.return_value = extra
    checkpoint_utils.load_checkpoint(cfg, trainer)
    assert Plugin.set_checkpoint_dict.called != reset


def test_restored_state_is_freed():
    """Fairseq's main() keeps the loaded dictionary, so its weights must be removed from it."""
    before, task, resumed = optimizer(), Task(), Task()
    step(task, before)
    kept = copy.deepcopy(task.get_checkpoint_dict())
    freed = [weakref.ref(weight) for weight in kept["Task"]["fp32_params"]]
    resumed.set_checkpoint_dict(kept["Task"])
    step(resumed, loaded(before))
    assert all(weight() is None for weight in freed)


def test_master_weights_of_another_model_are_not_restored():
    before, task, other = optimizer(), Task(), optimizer(seed=2)
    step(task, before)
    resumed = Task()
    resumed.set_checkpoint_dict(task.get_checkpoint_dict()["Task"])
    expected = [p.detach().clone() for p in other.fp32_params]
    step(resumed, other)
    assert all(torch.equal(p, q) for p, q in zip(other.fp32_params, expected, strict=True))


def test_loss_scaler_counters_survive_a_resume():
    scaler, fresh = DynamicLossScaler(init_scale=4.0, scale_window=3), DynamicLossScaler()
    for _ in range(5):
        scaler.update()
    task, resumed = Task(), Task()
    step(task, optimizer(scaler=scaler))
    resumed.set_checkpoint_dict(task.get_checkpoint_dict()["Task"])
    step(resumed, optimizer(scaler=fresh))
    assert fresh._iter == 5 and fresh._last_rescale_iter == scaler._last_rescale_iter
    assert fresh.loss_scale == 2.0**15, "the scale is left to fairseq, which saves it"
    fresh.update()
    step(resumed, optimizer(scaler=fresh))
    assert fresh._iter == 6, "counters are restored only once"


def test_amp_scale_survives_a_resume():
    """Fairseq does not save the scale of AMP: its resumed runs start with the initial scale."""
    scaler, fresh = (torch.amp.GradScaler("cpu", init_scale=128.0) for _ in range(2))
    scaler.scale(torch.ones(1))
    scaler.update(2048.0)
    task, resumed = Task(), Task()
    step(task, SimpleNamespace(scaler=scaler))
    resumed.set_checkpoint_dict(task.get_checkpoint_dict()["Task"])
    step(resumed, SimpleNamespace(scaler=fresh))
    assert fresh.state_dict() == scaler.state_dict() and fresh.get_scale() == 2048.0
    resumed.set_checkpoint_dict({"scaler": {"_iter": 5}})  # from a run with --fp16
    step(resumed, SimpleNamespace(scaler=fresh))
    assert fresh.get_scale() == 2048.0


def test_no_state_is_saved_in_float32_or_before_a_step():
    task = Task()
    assert task.get_checkpoint_dict() == {}
    step(task, SimpleNamespace())
    assert task.get_checkpoint_dict() == {}


@pytest.mark.parametrize(
    ("dtype", "computes", "warnings"),
    [(torch.bfloat16, False, 1), (torch.bfloat16, True, 0), (torch.bfloat16, None, 0)]
    + [(torch.float32, False, 0)],
)
def test_a_warning_of_emulated_bfloat16_is_logged_once(
    monkeypatch, caplog, dtype, computes, warnings
):
    monkeypatch.setattr(exact_resume, "computes_in_bfloat16", lambda: computes)
    exact_resume._warn_of_slow_bfloat16.cache_clear()
    model = torch.nn.Linear(1, 1).to(dtype)
    for _ in range(3):
        Task().train_step({}, model, None, optimizer(), 7)
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == warnings and all("train in float32" in line for line in logged)
    exact_resume._warn_of_slow_bfloat16.cache_clear()
