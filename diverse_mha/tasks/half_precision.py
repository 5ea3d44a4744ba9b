"""Exact resume in half precision: what fairseq's checkpoints leave out, kept by the task."""

import functools
import logging

import torch
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from torch import Tensor

from diverse_mha.common.machine import IMITATED_BFLOAT16, computes_in_bfloat16

logger = logging.getLogger(__name__)


class HalfPrecisionState:
    """Keeps the optimizer's float32 weights in the checkpoint; goes before a fairseq task.

    With ``--bf16`` and ``--fp16`` fairseq updates weights in float32 and trains a copy of
    them rounded to half precision. It saves the rounded ones alone, so that a resumed run goes
    on from other weights than the run that stopped. Here the float32 ones are saved as well, 4
    bytes a parameter, and the counters of the loss scaler, with ``--amp`` too, through the hooks
    that fairseq gives a task. In float32, and with the memory-efficient variants, there is no copy
    to save.
    """

    _optimizer = None
    _restored: dict | None = None

    def train_step(self, sample, model, criterion, optimizer, *args, **kwargs):
        """Do what fairseq's task does; in the first step after a resume, restore the state."""
        self._optimizer = optimizer
        parameter = next(model.parameters(), None)
        if parameter is not None and parameter.dtype == torch.bfloat16 and parameter.is_cpu:
            _warn_of_slow_bfloat16()
        if self._restored is not None:
            _restore(optimizer, self._restored)
            self._restored.clear()  # fairseq's main() keeps the checkpoint's part to the end
            self._restored = None
        return super().train_step(sample, model, criterion, optimizer, *args, **kwargs)

    def get_checkpoint_dict(self) -> dict:
        """Return what fairseq puts into the checkpoint: our state under the class's name."""
        state = self._restored if self._restored is not None else _state(self._optimizer)
        return {type(self).__name__: state} if state else {}

    def set_checkpoint_dict(self, state: dict) -> None:
        """Take the state out of a checkpoint, until there is an optimizer to put it into."""
        self._restored = state


@functools.cache  # once
def _warn_of_slow_bfloat16() -> None:
    if computes_in_bfloat16() is False:
        logger.warning("%s; leave --bf16 out (in a recipe: common.bf16=false)", IMITATED_BFLOAT16)


def _masters(optimizer) -> list[Tensor]:
    """The float32 weights of an optimizer that has them apart from the model's."""
    masters = getattr(optimizer, "fp32_params", None)
    if isinstance(masters, dict):  # flattened, one a device
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
    # A run may go on in another precision, on other devices or from other weights: the state
    # counts only if it rounds to the weights that were loaded.
    if len(masters) == len(saved) and all(
        p.shape == kept.shape and torch.equal(_rounded(p, optimizer), _rounded(kept, optimizer))
        for p, kept in zip(masters, saved, strict=True)
    ):
        for p, kept in zip(masters, saved, strict=True):
            p.data.copy_(kept)
    scaler = getattr(optimizer, "scaler", None)
    if isinstance(scaler, DynamicLossScaler):
        vars(scaler).update(state.get("scaler", {}))
    elif isinstance(scaler, torch.amp.GradScaler) and state.get("grad_scaler"):
        scaler.load_state_dict(state["grad_scaler"])


def _rounded(weight: Tensor, optimizer) -> Tensor:
    return weight.detach().to("cpu", optimizer.fp16_params[0].dtype)
