"""Reads checkpoints with torch's safe loader, checks them and writes them whole."""

import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import whole_file
from diverse_mha.common.outputs import MADE_BY
from diverse_mha.common.processes import ended_in_order
from diverse_mha.fairseq_fixes.safe_loading import LOADING_ERRORS, check_finite, checkpoint_error
from diverse_mha.fairseq_fixes.whole_files import refusals_named
from diverse_mha.tasks.data_files import dictionaries_named

SCORERS = (
    "diverse-mha evaluate scores translations, evaluate-lm language models, "
    "evaluate-classifier classifiers"
)
_BOTH_SIDES = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}


def load_checkpoint(path: str | Path, *, mmap: bool = False) -> dict:
    """Return a fairseq checkpoint on the CPU; with ``mmap`` tensors are mapped, not read."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint; check the folder for those that exist")
    mmap = mmap and zipfile.is_zipfile(path)  # not so before torch 1.6
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except LOADING_ERRORS as error:
        raise checkpoint_error(str(path), error) from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(torch.is_tensor(x) for x in model.values()):
        raise UserError(
            f"{path}: no fairseq checkpoint (it has no 'model' of tensors); give one that has"
        )
    if not mmap:
        check_finite(str(path), model)
    return state


def save_checkpoint(state: dict, output: str | Path) -> None:
    """Write a checkpoint whole or not at all."""
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with ended_in_order(), refusals_named(str(output)), whole_file(output) as file:
        torch.save(state, file)


def written_by(command: str) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is a checkpoint that a command wrote."""

    def is_own(path: Path) -> bool:
        try:
            state = load_checkpoint(path, mmap=True)
        except UserError:
            return False
        return (state.get("extra_state") or {}).get(MADE_BY) == command

    return is_own


def forget_training(state: dict) -> None:
    """Remove what does not fit changed parameters: optimizer, float32 copies, moving averages."""
    state["last_optimizer_state"] = None  # fairseq then starts a fresh optimizer
    state["task_state"] = {}
    state["extra_state"] = {
        name: kept
        for name, kept in (state.get("extra_state") or {}).items()
        if not name.startswith("ema")
        and not (isinstance(kept, dict) and kept.keys() & {"fp32_params", "scaler"})
    }


def settings(state: dict, group: str = "task") -> dict:
    """Return the options of a group; an old checkpoint without groups returns all its options."""
    if state.get("cfg") is not None:
        kept = state["cfg"].get(group) or {}
        # Models without a dataclass, such as fairseq's LSTM, keep a Namespace.
        return dict(vars(kept) if isinstance(kept, Namespace) else kept)
    found = vars(state["args"]) if state.get("args") is not None else {}
    return {"_name": found.get(group)} | found


def updates_of(state: dict) -> int | None:
    """Return the number of updates behind a checkpoint, None where it does not say."""
    return (state.get("optimizer_history") or [{}])[-1].get("num_updates")


def check_task(checkpoint: str | Path, state: dict, wanted: str) -> dict:
    """Return the settings of a checkpoint's task; raises an error if its name lacks ``wanted``."""
    task = settings(state)
    if wanted not in str(task.get("_name")):
        raise UserError(
            f"{checkpoint}: trained on the task {task.get('_name')}, not {wanted}; {SCORERS}"
        )
    return task


def check_translates(checkpoint: str) -> None:
    """Raise an error if a checkpoint is no translation model or has no options."""
    state = load_checkpoint(checkpoint, mmap=True)
    if not _BOTH_SIDES <= state["model"].keys():
        raise UserError(f"{checkpoint}: no translation model; {SCORERS}")
    if state.get("cfg") is None and state.get("args") is None:
        raise UserError(f"{checkpoint}: holds no options; give one that fairseq-train wrote")


@contextmanager
def fitting(checkpoint: str | Path, data: str | Path) -> Iterator[None]:
    """Turn errors of building and loading a model into one line: it does not fit the data."""
    try:
        with dictionaries_named(data):
            yield
    except UserError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or ["no such dictionary"]
        if not isinstance(error, AssertionError | FileNotFoundError) and not lines[0].startswith(
            ("Error(s) in loading state_dict", "Could not infer language pair")
        ):
            raise
        why = " ".join(line.strip() for line in lines[:2])[:200]
        raise UserError(
            f"{data}: does not fit {checkpoint} ({why}); give the data it was trained on, or a "
            "whole checkpoint"
        ) from error
