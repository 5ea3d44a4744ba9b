"""torch's safe loader for every checkpoint, and one line where it refuses.

With torch 2.6 and later fairseq-fixed 0.12.3.1 cannot read a checkpoint that holds its own options:
``WeightsUnpickler error: Unsupported global``. A broken file ends in a traceback.
"""

import argparse
import collections
import os
import pickle
import zipfile
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import AnyNode, DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata

from diverse_mha.common.errors import OptionError, describe_os_error
from diverse_mha.fairseq_fixes import checkpoint_guard
from diverse_mha.fairseq_fixes.finite_weights import check_finite
from diverse_mha.fairseq_fixes.replacing import in_place_of
from diverse_mha.fairseq_fixes.resuming import note_processes

#: What loading a file raises that is cut off, no checkpoint, or refused.
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


#: The checkpoint read last, and the options in it.
last_read: dict = {}


_NUMPY_DTYPES = ("float64", "float32", "int64", "int32", "bool")


def plain_classes() -> list:
    """List the classes and functions that fairseq's checkpoints hold beside tensors.

    torch's loader builds none that it was not told of, and nothing that runs code on loading is
    among them. As ``torch.serialization.add_safe_globals`` takes them: an object, or an object
    and the name it goes by in the file.
    """
    numpy = [np.ndarray, np.dtype]
    # numpy 2 renamed the folder; a checkpoint has the name of the numpy that wrote it.
    for function in (np.array([0]).__reduce__()[0], np.float64(0).__reduce__()[0]):
        for folder in ("core", "_core"):
            numpy.append((function, f"numpy.{folder}.multiarray.{function.__name__}"))
    numpy += [type(np.dtype(name)) for name in _NUMPY_DTYPES]
    # Written when a resumed run with several processes broadcasts its state.
    broadcast = [DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata, Any]
    broadcast.append(distributed_utils._TensorPlaceholder)
    plain = [argparse.Namespace, collections.defaultdict]
    return numpy + broadcast + plain + [dict, list, int, float, str, bool, tuple, set]


def checkpoint_error(path: str, error: Exception) -> OptionError:
    """Say in one line why a checkpoint was not loaded, by one of ``LOADING_ERRORS``."""
    whole = os.path.isfile(path) and zipfile.is_zipfile(path)  # torch's format since 1.6
    if isinstance(error, OSError) and error.filename is not None:
        return OptionError(f"checkpoint {describe_os_error(error)}")
    if isinstance(error, pickle.UnpicklingError) and _refused(str(error), path):
        why = "holds more than tensors and plain values, and loading it could run code; refused"
    elif isinstance(error, EOFError | OSError | pickle.UnpicklingError) or not whole:
        why = "is cut off or not a checkpoint; give a whole one, such as an earlier one of the run"
    elif isinstance(error, LookupError | TypeError | AttributeError):
        why = "is no fairseq checkpoint; give one that fairseq-train wrote"
    else:
        first = next(iter(str(error).splitlines()), "")
        return OptionError(f"{path}: cannot be loaded: {type(error).__name__}: {first}")
    return OptionError(f"{path}: {why} ({type(error).__name__})")


def _refused(message: str, path: str) -> bool:
    """Whether torch's safe loader met what it does not load, rather than no pickle at all."""
    if "Unsupported operand" in message:
        with open(path, "rb") as file:
            if file.read(2) not in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
                return False
    return "weights_only" in message.lower()


@in_place_of(checkpoint_utils, "load_checkpoint_to_cpu")
def load_or_explain(load, path, arg_overrides=None, *args, **kwargs):
    """Load a checkpoint; one that is cut off, refused or NaN ends in one line that names it."""
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
