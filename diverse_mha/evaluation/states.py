"""Checkpoints as dictionaries: reads, checks and writes their files, without building a model.

A command that takes a checkpoint opens it by :func:`open_state`, reads its settings, and hands the
content on: to :mod:`diverse_mha.evaluation.models`, which builds the model, or to
:func:`write_state`. The parameters stay in the file until they are used. A training reads its
checkpoints by fairseq, as changed in ``fairseq_fixes/checkpoints.py``.
"""

import copy
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, overwrite_args_by_name
from omegaconf import DictConfig, OmegaConf

import diverse_mha
from diverse_mha.common.errors import UserError
from diverse_mha.common.files import atomic_file, check_checkpoint
from diverse_mha.common.processes import ended_in_order
from diverse_mha.evaluation.outputs import MADE_BY
from diverse_mha.fairseq_fixes.checkpoints import (
    LOADING_ERRORS,
    check_finite,
    checkpoint_error,
    hydras_warnings_hidden,
    loading,
    refusals_named,
)
from diverse_mha.recipes.steps import KINDS

_BOTH_SIDES = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}


def open_state(path: str | Path, *, finite: bool = False) -> dict:
    """Return the content of a fairseq checkpoint, on the CPU.

    Args:
        path: the file, read with torch's safe loader. A tensor is read from it when it is used.
        finite: read all parameters, and raise an error if one has NaN or infinity.
    """
    path = Path(path)
    check_checkpoint(path)
    mmap = not finite and zipfile.is_zipfile(path)  # files of torch 1.5 or older cannot be mapped
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except LOADING_ERRORS as error:
        raise checkpoint_error(str(path), error) from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(torch.is_tensor(x) for x in model.values()):
        raise UserError(
            f"{path}: is not a fairseq checkpoint (no 'model' with tensors); give a file that "
            "fairseq-train wrote"
        )
    if finite:
        check_finite(str(path), model)
    return state


def grouped(path: str, state: dict, overrides: Mapping | None = None) -> dict:
    """Return a copy of a checkpoint in fairseq's present form, from which a model can be built.

    Options are checked and stand in groups (``cfg``), also those of older versions (``args``).
    Parameters are finite, and shared with ``state``.

    Args:
        path: the checkpoint, for messages.
        state: its content, from :func:`open_state`.
        overrides: options that replace saved values.
    """
    diverse_mha.register()
    state = {k: copy.copy(v) if isinstance(v, dict) else v for k, v in state.items()}
    args, cfg = (copy.deepcopy(state.get(name)) for name in ("args", "cfg"))
    with loading(path, overrides):
        if args is not None:
            state["args"] = Namespace(**{**vars(args), **(overrides or {})})
        if cfg is not None:
            saved = cast("DictConfig", OmegaConf.create(cfg, flags={"allow_objects": True}))
            overwrite_args_by_name(saved, dict(overrides or {}))
            state["cfg"] = saved
        state = checkpoint_utils._upgrade_state_dict(state)
        check_finite(path, state["model"])
    if state.get("args") is not None:
        with hydras_warnings_hidden():
            state["cfg"], state["args"] = convert_namespace_to_omegaconf(state["args"]), None
    cfg = state.get("cfg")
    if cfg is None or not state["model"] or any(cfg.get(x) is None for x in ("model", "task")):
        raise UserError(
            f"{path}: has no model with options; give a checkpoint written by fairseq-train"
        )
    return state


def write_state(state: dict, output: str | Path) -> None:
    """Write a checkpoint atomically."""
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with ended_in_order(), refusals_named(str(output)), atomic_file(output) as file:
        torch.save(state, file)


def written_by(command: str) -> Callable[[Path], bool]:
    """Return a predicate that is True for checkpoints that ``command`` wrote."""

    def is_own(path: Path) -> bool:
        try:
            state = open_state(path)
        except UserError:
            return False
        return (state.get("extra_state") or {}).get(MADE_BY) == command

    return is_own


def forget_training(state: dict) -> None:
    """Remove training state that does not fit changed parameters: optimizer, float32 copy, EMA."""
    state["last_optimizer_state"] = None  # fairseq then starts a fresh optimizer
    state["task_state"] = {}
    state["extra_state"] = {
        name: value
        for name, value in (state.get("extra_state") or {}).items()
        if not name.startswith("ema")
        and not (isinstance(value, dict) and value.keys() & {"fp32_params", "scaler"})
    }


def settings(state: dict, group: str = "task") -> dict:
    """Return the options of a group, or all options if an old checkpoint has no groups."""
    if state.get("cfg") is not None:
        options = state["cfg"].get(group) or {}
        # Models without a dataclass, such as fairseq's LSTM, keep a Namespace.
        return dict(vars(options) if isinstance(options, Namespace) else options)
    options = vars(state["args"]) if state.get("args") is not None else {}
    return {"_name": options.get(group)} | options


def updates_of(state: dict) -> int | None:
    """Return the number of updates of a checkpoint, or None if it is not recorded."""
    return (state.get("optimizer_history") or [{}])[-1].get("num_updates")


def check_task(checkpoint: str | Path, state: dict, wanted: str) -> dict:
    """Return the task's options. Raise an error if the task's name does not contain ``wanted``."""
    task = settings(state)
    if wanted not in str(task.get("_name")):
        raise UserError(
            f"{checkpoint}: trained on the task {task.get('_name')}, not {wanted}; use "
            f"{_scorer(task)}"
        )
    return task


def _scorer(task: dict) -> str:
    """Return the command that scores the models of a task; all commands if the task is another."""
    kinds = [kind for kind in KINDS.values() if kind.task in str(task.get("_name"))]
    return ", ".join(f"diverse-mha {kind.command}" for kind in kinds or KINDS.values())


def check_translates(checkpoint: str, state: dict) -> None:
    """Raise an error unless a checkpoint is a translation model with options."""
    if not _BOTH_SIDES <= state["model"].keys():
        task = settings(state)
        trained = f"trained on the task {task.get('_name')}"
        raise UserError(
            f"{checkpoint}: is not a translation model ({trained}); give one, or use "
            f"{_scorer(task)}"
        )
    if state.get("cfg") is None and state.get("args") is None:
        raise UserError(f"{checkpoint}: has no options; give a checkpoint written by fairseq-train")
