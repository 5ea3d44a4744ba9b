"""Loads every checkpoint with torch's safe loader, and refuses broken ones in one line.

From torch 2.6, fairseq-fixed 0.12.3.1 cannot read its own checkpoints (``WeightsUnpickler error:
Unsupported global``), and a broken file ends in a traceback.
"""

import argparse
import collections
import pickle
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import AnyNode, DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata

from diverse_mha.common.errors import OptionError, describe_os_error
from diverse_mha.fairseq_fixes import checkpoint_guard
from diverse_mha.fairseq_fixes.replacing import in_place_of

#: What loading raises for a file that is cut off, not a checkpoint, or refused.
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
#: Path and options of the checkpoint that was read last.
last_read: dict = {}

#: Options that an epoch's batches depend on.
LIMITS = ("max_tokens", "batch_size", "required_batch_size_multiple")


def plain_classes() -> list:
    """Return what fairseq's checkpoints hold beside tensors, for ``add_safe_globals``.

    Nothing here runs code when it is loaded.
    """
    numpy = [np.ndarray, np.dtype]
    # numpy 2 renamed the folder.
    for function in (np.array([0]).__reduce__()[0], np.float64(0).__reduce__()[0]):
        for folder in ("core", "_core"):
            numpy.append((function, f"numpy.{folder}.multiarray.{function.__name__}"))
    numpy += [type(np.dtype(n)) for n in ("float64", "float32", "int64", "int32", "bool")]
    # Written when several processes resume and broadcast their state.
    broadcast = [DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any]
    broadcast.append(distributed_utils._TensorPlaceholder)
    plain = [argparse.Namespace, collections.defaultdict]
    return numpy + broadcast + plain + [dict, list, int, float, str, bool, tuple, set]


def checkpoint_error(path: str, error: Exception) -> OptionError:
    """Return the one line for one of ``LOADING_ERRORS``."""
    if isinstance(error, OSError) and error.filename is not None:
        return OptionError(f"checkpoint {describe_os_error(error)}")
    kind, first = type(error).__name__, str(error).partition("\n")[0]
    whole = zipfile.is_zipfile(path)  # torch's format since 1.6
    if whole and not isinstance(error, EOFError | OSError | pickle.UnpicklingError):
        return OptionError(f"{path}: {kind}: {first}; give a checkpoint that fairseq-train wrote")
    return OptionError(
        f"{path}: cut off, no checkpoint, or holds more than tensors and plain values; refused "
        f"({kind}); give a whole one, such as an earlier one of the run"
    )


def check_finite(path: str, model: Mapping | None) -> None:
    """Refuse a model with a parameter that is not finite.

    With NaN a search ends in ``AssertionError: 200 < 200``, and a classifier always answers the
    first class.
    """
    for name, value in (model or {}).items():
        if torch.is_tensor(value) and not bool(value.isfinite().all()):
            raise OptionError(
                f"{path}: parameter {name} holds NaN or infinity; take a checkpoint from before "
                "the training diverged"
            )


@in_place_of(checkpoint_utils, "load_checkpoint_to_cpu")
def load_or_explain(load, path, arg_overrides=None, *args, **kwargs):
    """Load a checkpoint, or raise OptionError if it is broken, refused or not finite."""
    try:
        with checkpoint_guard.reading(str(path), arg_overrides):
            state = load(path, arg_overrides, *args, **kwargs)
        note_processes(state)
        check_finite(str(path), state.get("model"))
        last_read.update(path=str(path), cfg=state.get("cfg"))
        return state
    except OptionError:
        raise
    except LOADING_ERRORS as error:
        raise checkpoint_error(path, error) from error


torch.serialization.add_safe_globals(plain_classes())


def note_processes(state: dict) -> None:
    """Add to a loaded checkpoint's position in the epoch how its batches were made.

    The position counts batches of one process. fairseq sends it to all processes, without options.
    """
    place = (state.get("extra_state") or {}).get("train_iterator")
    if place is not None:
        cfg = state.get("cfg") or {}
        place["processes"] = (cfg.get("distributed_training") or {}).get("distributed_world_size")
        dataset = cfg.get("dataset") or {}
        place["limits"] = {name: dataset[name] for name in LIMITS if name in dataset}
