"""Exact resume in half precision: saves the float32 master weights and the loss scaler.

fairseq's checkpoints leave them out, so that a resumed run differs from an uninterrupted one.
"""

import functools
import logging
from typing import Any

import torch
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.tasks import FairseqTask
from torch import Tensor

from diverse_mha.common.machine import IMITATED_BFLOAT16, computes_in_bfloat16

logger = logging.getLogger(__name__)


class HalfPrecisionState(FairseqTask):
    """Mixin for fairseq's tasks that saves the optimizer's float32 master weights.

    With ``--bf16`` and ``--fp16`` fairseq updates float32 weights and trains a rounded copy, but
    saves only the copy. The master weights take 4 bytes a parameter in the checkpoint. The
    counters of the loss scaler are saved too (also with ``--amp``).
    """

    cfg: Any  # the task's options
    # Restored with --reset-dataloader, too; other tasks may keep a position in the data.
    state_is_of_weights = True
    _optimizer = None
    _restored: dict | None = None

    def train_step(self, sample, model, criterion, optimizer, *args, **kwargs):
        """Run fairseq's training step; the first one after a resume restores the state."""
        self._optimizer = optimizer
        parameter = next(model.parameters(), None)
        if parameter is not None and parameter.dtype == torch.bfloat16 and parameter.is_cpu:
            _warn_of_slow_bfloat16()
        if self._restored is not None:
            _restore(optimizer, self._restored)
            self._restored.clear()  # frees the memory: fairseq's main() still has a reference
            self._restored = None
        return super().train_step(sample, model, criterion, optimizer, *args, **kwargs)

    def get_checkpoint_dict(self) -> dict:
        """Return the state for the checkpoint, keyed by the task's class name."""
        state = self._restored if self._restored is not None else _state(self._optimizer)
        return {type(self).__name__: state} if state else {}

    def set_checkpoint_dict(self, state: dict) -> None:
        """Store a checkpoint's state until the optimizer exists."""
        self._restored = state


@functools.cache  # warn once
def _warn_of_slow_bfloat16() -> None:
    if computes_in_bfloat16() is False:
        logger.warning("%s; train in float32", IMITATED_BFLOAT16)


def _masters(optimizer) -> list[Tensor]:
    """Return the optimizer's float32 master weights; empty if it has none."""
    masters = getattr(optimizer, "fp32_params", None)
    if isinstance(masters, dict):  # flattened parameters: device -> tensor
        masters = list(masters.values())
    return [] if masters is None else list(masters)


def _state(optimizer) -> dict:
    state = {}
    masters = _masters(optimizer)
    if masters:
        state["fp32_params"] = [p.detach().cpu() for p in masters]
    scaler = getattr(optimizer, "scaler", None)
    if isinstance(scaler, DynamicLossScaler):
        state["scaler"] = {k: v for k, v in vars(scaler).items() if k.startswith("_")}
    elif isinstance(scaler, torch.amp.GradScaler):
        state["grad_scaler"] = scaler.state_dict()
    return state


def _restore(optimizer, state: dict) -> None:
    masters, saved = _masters(optimizer), state.get("fp32_params", [])
    # Restore only if the saved master weights round to the model's weights. This fails if the
    # precision or the number of devices has changed.
    if len(masters) == len(saved) and all(
        p.shape == s.shape and torch.equal(_rounded(p, optimizer), _rounded(s, optimizer))
        for p, s in zip(masters, saved, strict=True)
    ):
        for p, s in zip(masters, saved, strict=True):
            p.data.copy_(s)
    scaler = getattr(optimizer, "scaler", None)
    if isinstance(scaler, DynamicLossScaler):
        vars(scaler).update(state.get("scaler", {}))
    elif isinstance(scaler, torch.amp.GradScaler) and state.get("grad_scaler"):
        scaler.load_state_dict(state["grad_scaler"])


def _rounded(weight: Tensor, optimizer) -> Tensor:
    return weight.detach().to("cpu", optimizer.fp16_params[0].dtype)
