"""Checkpoints: safe loading, plain options, atomic writes, and none skipped at an epoch's end.

With torch 2.6 or later, fairseq-fixed 0.12.3.1 cannot read its own checkpoints (``WeightsUnpickler
error: Unsupported global``), and a broken file ends in a traceback. fairseq evaluates a
checkpoint's options as Python; here, ``eval`` in fairseq's modules is replaced by a parser of
literals. fairseq writes in place, so a killed run or a full disk leaves a broken checkpoint. At the
end of an epoch, fairseq skips the checkpoint of ``--save-interval-updates``
(facebookresearch/fairseq#2230).
"""

import argparse
import collections
import logging
import os
import pickle
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
import torch
from fairseq import checkpoint_utils, criterions, models
from fairseq.data import encoders
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from hydra.errors import HydraException
from omegaconf import AnyNode, DictConfig, ListConfig, OmegaConf
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from diverse_mha.common.errors import Option, UserError, describe_os_error
from diverse_mha.common.files import atomic_file, folder_error
from diverse_mha.fairseq_fixes.checkpoint_options import (
    check_options,
    evaluate_option,
    unset_options,
)
from diverse_mha.fairseq_fixes.dictionaries import Read, check_dictionaries, noted_in, recorded
from diverse_mha.fairseq_fixes.patch import patch

logger = logging.getLogger(__name__)


@patch(checkpoint_utils, "save_checkpoint")
def save_update_checkpoint(save, cfg, trainer, epoch_itr, val_loss):
    """Save as fairseq does; also save the update checkpoint that it skips at an epoch's end."""
    updates, interval = trainer.get_num_updates(), cfg.save_interval_updates
    if interval <= 0 or updates % interval or not epoch_itr.end_of_epoch():
        return save(cfg, trainer, epoch_itr, val_loss)
    copied = not cfg.write_checkpoints_asynchronously  # otherwise, the file may be incomplete
    if copied and (cfg.no_epoch_checkpoints or epoch_itr.epoch % cfg.save_interval):
        # Without a checkpoint of the epoch, fairseq may write no file that could be copied.
        return save(cfg, trainer, _WithinEpoch(epoch_itr), val_loss)
    saved = save(cfg, trainer, epoch_itr, val_loss)
    if saved is None:
        return saved
    suffix = trainer.checkpoint_suffix
    path = os.path.join(cfg.save_dir, f"checkpoint_{epoch_itr.epoch}_{updates}{suffix}.pt")
    if not copied:
        logger.warning("%s: not written, because %s is written asynchronously", path, saved)
        return saved
    files = checkpoint_utils.PathManager
    files.copy(saved, path, overwrite=True)
    if cfg.keep_interval_updates > 0:
        pattern = rf"checkpoint_\d+_(\d+){suffix}\.pt"
        paths = checkpoint_utils.checkpoint_paths(cfg.save_dir, pattern, keep_match=True)
        every = cfg.keep_interval_updates_pattern
        paths = [path for path, number in paths if every == -1 or number % every]
        for path in paths[cfg.keep_interval_updates :]:
            files.rm(path)
    return saved


class _WithinEpoch:
    """An epoch iterator whose epoch seems not to have ended. Its state is that of the end."""

    def __init__(self, epochs):
        self._epochs = epochs

    def __getattr__(self, name):
        return getattr(self._epochs, name)

    def end_of_epoch(self) -> bool:
        return False


#: Errors of building a model from invalid options. Callers handle RuntimeError (shapes differ) and
#: AssertionError (data differ) themselves.
BUILDING_ERRORS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    ImportError,
    OmegaConfBaseException,
)
#: Path of the checkpoint that is being loaded, and the options that the caller overrides. They are
#: set during one call. They cannot be arguments, because fairseq's loading functions call
#: _upgrade_state_dict, build_model and build_bpe, which are patched here, without the path. The
#: checkpoint's options must be checked before _upgrade_state_dict composes them with Hydra. A
#: separate check before loading would read the file twice, and the file might change in between.
_reading: ContextVar[tuple[str, frozenset]] = ContextVar("reading", default=("", frozenset()))


@contextmanager
def reading(path: str, overrides: Mapping | None) -> Iterator[None]:
    """Context manager: name the checkpoint in errors that its options cause.

    ``overrides`` are options that the caller has set, which may name files.
    """
    token = _reading.set((path, frozenset(_option_names(overrides or {}))))
    try:
        with options_explained():
            yield
    finally:
        _reading.reset(token)


def _option_names(overrides: Mapping) -> list[str]:
    names = list(overrides)
    for value in overrides.values():
        names += _option_names(value) if isinstance(value, Mapping) else []
    return names


@contextmanager
def options_explained(kinds=(OmegaConfBaseException, HydraException), options: Any = None):
    """Context manager: report errors that a checkpoint's options cause in one line.

    ``options`` are the model's, of which the line names those that are None.
    """
    try:
        yield
    except UserError:
        raise
    except kinds as error:
        first = next(iter(str(error).splitlines()), "")
        names = [f"{name} None" for name in unset_options(options)]
        if getattr(error, "full_key", None):  # attribute of OmegaConf's errors
            names = [error.full_key]
        where = f"{_reading.get()[0]}: its option{'' if len(names) == 1 else 's'}"
        where = " ".join([where, ", ".join(names)]).rstrip()
        why = f"cannot be used: {type(error).__name__}: {first}"
        cure = ()
        if "expected one of" in first:
            cure = "; for a value of your own, give ", Option("user_dir")
        raise UserError(f"{where} {why}", *cure) from error


def install() -> None:
    """Replace ``eval`` in all imported fairseq modules by a parser of literals."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fairseq" and module is not None:
            vars(module).update(eval=evaluate_option)


@contextmanager
def hydras_warnings_hidden() -> Iterator[None]:
    """Context manager: hide Hydra's warnings when fairseq composes options of old checkpoints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@patch(checkpoint_utils, "_upgrade_state_dict")
def _check_and_upgrade(upgrade, state):
    path, given = _reading.get()
    if not isinstance(state, Mapping) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"{path}: has no 'model'; give a checkpoint that fairseq-train wrote")
    if state.get("args") is None and state.get("cfg") is None:
        raise UserError(f"{path}: has no options; give a checkpoint that fairseq-train wrote")
    for options in (state.get("args"), state.get("cfg")):
        if options is not None:
            check_options(path, options, given)
    with hydras_warnings_hidden():
        upgraded = upgrade(state)
    _check_criterion((upgraded.get("cfg") or {}).get("criterion") or {})
    return upgraded


def _check_criterion(options: Mapping) -> None:
    """Raise OmegaConf's error for a value of a wrong type while the checkpoint's path is known.

    fairseq builds the criterion later, where the error could not name the checkpoint.
    """
    known = criterions.CRITERION_DATACLASS_REGISTRY.get(options.get("_name"))
    if known is None:
        return
    for name in options:
        if name in known.__dataclass_fields__:
            OmegaConf.merge(OmegaConf.structured(known), {name: options[name]})


@patch(checkpoint_utils, "load_model_ensemble_and_task")
def _load_and_explain(
    load, filenames, arg_overrides=None, task=None, strict=True, suffix="", num_shards=1, state=None
):
    ensemble, cfg = [], None
    for path in map(str, filenames):  # one by one, so that an error names the right checkpoint
        reads: dict[str, Read] = {}
        noted = noted_in(reads)
        with reading(path, arg_overrides), options_explained(BUILDING_ERRORS), noted:
            try:
                loaded, cfg, task = load(
                    [path], arg_overrides, task, strict, suffix, num_shards, state
                )
            except FileNotFoundError as error:
                raise UserError(f"{path}: cannot open {describe_os_error(error)}") from error
        # Building a model may read more checkpoints, after its own.
        record = recorded(state) if state else next(iter(reads.values())).dictionaries
        check_dictionaries(path, record, task)
        ensemble += loaded
    return ensemble, cfg, task


@patch(models, "build_model")
def _build_and_explain(build, cfg, task, from_checkpoint=False):
    try:
        with options_explained(Exception if from_checkpoint else (), cfg):
            return build(cfg, task, from_checkpoint)
    except UserError as error:
        path = _reading.get()[0]
        if not from_checkpoint or path in str(error):
            raise
        raise UserError(f"{path}: ", *error.args) from error


@patch(encoders, "build_bpe")
def _report_missing_file(build, cfg, *args, **kwargs):
    try:
        return build(cfg, *args, **kwargs)
    except MissingMandatoryValue as error:
        name = str(error.key)
        raise UserError(
            Option(name),
            f" is missing (in Python: {name}=...); give it, because files that a checkpoint names "
            "are not opened",
        ) from error


#: Errors of loading a file that is truncated, not a checkpoint, or refused.
LOADING_ERRORS = (
    RuntimeError,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OSError,
    pickle.UnpicklingError,
)

#: Options that determine the batches of an epoch.
LIMITS = ("max_tokens", "batch_size", "required_batch_size_multiple")


def plain_classes() -> list:
    """Return the classes, other than tensors, in fairseq's checkpoints, for ``add_safe_globals``.

    None of them runs code when it is loaded.
    """
    numpy = [np.ndarray, np.dtype]
    # numpy 2 renamed core to _core.
    for value in (np.array([0]), np.float64(0)):
        function = cast("Any", value.__reduce__()[0])
        for folder in ("core", "_core"):
            numpy.append((function, f"numpy.{folder}.multiarray.{function.__name__}"))
    numpy += [type(np.dtype(n)) for n in ("float64", "float32", "int64", "int32", "bool")]
    # Classes in the state that a run of several processes broadcasts when it resumes.
    broadcast = [DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any]
    broadcast.append(distributed_utils._TensorPlaceholder)
    plain = [argparse.Namespace, collections.defaultdict]
    return numpy + broadcast + plain + [dict, list, int, float, str, bool, tuple, set]


def checkpoint_error(path: str, error: Exception) -> UserError:
    """Return the one-line error for one of ``LOADING_ERRORS``."""
    if os.path.isdir(path):
        return folder_error(path)
    if isinstance(error, OSError) and error.filename is not None:
        return UserError(f"checkpoint {describe_os_error(error)}")
    kind, first = type(error).__name__, str(error).partition("\n")[0]
    whole = zipfile.is_zipfile(path)  # torch's format since 1.6
    if whole and not isinstance(error, EOFError | OSError | pickle.UnpicklingError):
        return UserError(f"{path}: {kind}: {first}; give a checkpoint that fairseq-train wrote")
    return UserError(
        f"{path}: truncated, no checkpoint, or contains more than tensors and plain values; "
        f"refused ({kind}); give another checkpoint, such as an earlier one of the run"
    )


def check_finite(path: str, model: Mapping | None) -> None:
    """Raise an error for a model with NaN or infinite parameters.

    With NaN, beam search fails with ``AssertionError: 200 < 200``, and a classifier always predicts
    the first class.
    """
    for name, value in (model or {}).items():
        if torch.is_tensor(value) and not bool(value.isfinite().all()):
            raise UserError(
                f"{path}: parameter {name} holds NaN or infinity; take a checkpoint from before "
                "the training diverged"
            )


@contextmanager
def loading(path: str, overrides: Mapping | None) -> Iterator[None]:
    """Context manager: report in one line why a checkpoint cannot be used.

    ``overrides`` are as in :func:`reading`.
    """
    try:
        with reading(path, overrides):
            yield
    except UserError:
        raise
    except LOADING_ERRORS as error:
        raise checkpoint_error(path, error) from error


@patch(checkpoint_utils, "load_checkpoint_to_cpu")
def load_or_explain(load, path, arg_overrides=None, *args, **kwargs):
    """Load a checkpoint, or raise UserError if it is broken, refused or not finite."""
    with loading(str(path), arg_overrides):
        state = load(path, arg_overrides, *args, **kwargs)
        note_processes(state)
        check_finite(str(path), state.get("model"))
        return state


torch.serialization.add_safe_globals(plain_classes())


def note_processes(state: dict) -> None:
    """Add the number of processes and the batch limits to a checkpoint's position in the epoch.

    The position counts batches of one process. When a run resumes, fairseq broadcasts the position
    to all processes, but not the options.
    """
    position = (state.get("extra_state") or {}).get("train_iterator")
    if position is not None:
        cfg = state.get("cfg") or {}
        position["processes"] = (cfg.get("distributed_training") or {}).get(
            "distributed_world_size"
        )
        dataset = cfg.get("dataset") or {}
        position["limits"] = {name: dataset[name] for name in LIMITS if name in dataset}


class AtomicCopies(PathManager):
    """fairseq's file functions, with copies that replace their target once complete."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        """Copy a file atomically; copy to remote storage as fairseq does."""
        if not PathManager.supports_rename(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite)
        with (
            refusals_named(dst_path),
            open(src_path, "rb") as source,
            atomic_file(dst_path) as file,
        ):
            shutil.copyfileobj(source, file, 2**20)
        return dst_path


@contextmanager
def refusals_named(path: str):
    """Context manager: turn an OS error while ``path`` is written into one line."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        refused = error if isinstance(error, OSError) else error.__context__
        if isinstance(refused, SystemExit | KeyboardInterrupt):
            raise refused from None  # torch's writer has replaced the interrupt by its own error
        if not isinstance(refused, OSError):
            raise
        named = OSError(refused.errno, refused.strerror, path)
        raise UserError(f"checkpoint not saved: {describe_os_error(named)}") from error


@patch(checkpoint_utils, "torch_persistent_save")
def save_atomically(save, obj, filename, async_write: bool = False):
    """Write a checkpoint to a temporary file that replaces the target once complete."""
    if async_write or not PathManager.supports_rename(filename):
        return save(obj, filename, async_write)
    with refusals_named(filename), atomic_file(filename) as file:
        torch.save(obj, file)


checkpoint_utils.PathManager = AtomicCopies
