"""Checkpoints: read by torch's safe loader, opened as models, written whole."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import whole_file
from diverse_mha.compat import (
    LOADING_ERRORS,
    allow_fairseq_checkpoints,
    checkpoint_error,
    refusals_named,
)
from diverse_mha.corpora.text import count_lines
from diverse_mha.tasks.data_files import dictionaries_named


def load_checkpoint(path: str | Path, *, mmap: bool = False) -> dict:
    """Read a fairseq checkpoint onto the CPU with torch's safe loader.

    Args:
        path: The checkpoint file.
        mmap: Map the tensors instead of reading them; for a look at the rest of the file.

    Returns:
        The checkpoint as fairseq wrote it: ``model``, ``cfg`` or ``args``, ``extra_state``, ...

    Raises:
        UserError: If the file is missing, truncated, needs more than plain tensors and
            configuration to load, or is no fairseq checkpoint.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint; check the folder for those that exist")
    allow_fairseq_checkpoints()
    mmap = mmap and zipfile.is_zipfile(path)  # torch's format before 1.6 was no zip file
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except LOADING_ERRORS as error:
        raise checkpoint_error(str(path), error) from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(torch.is_tensor(x) for x in model.values()):
        raise UserError(
            f"{path}: no fairseq checkpoint (it has no 'model' of tensors); give one that has"
        )
    return state


def save_checkpoint(state: dict, output: str | Path) -> None:
    """Write a checkpoint under a temporary name and move it into place once it is whole.

    Raises:
        UserError: if the operating system refuses, such as for a full disk.
    """
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with refusals_named(str(output)), whole_file(output) as file:
        torch.save(state, file)


def trained_direction(state: dict) -> tuple[str, str] | None:
    """Return the source and target language that a checkpoint was trained on, if it says so."""
    if state.get("cfg") is not None:
        settings = dict(state["cfg"].get("task") or {})
    else:
        settings = vars(state["args"]) if state.get("args") is not None else {}
    found = settings.get("source_lang"), settings.get("target_lang")
    return found if all(isinstance(language, str) for language in found) else None


def vocabulary_size(dictionary: Path) -> int:
    """Return the number of types of a dictionary with fairseq's four special ones."""
    return 4 + count_lines(dictionary)


@contextmanager
def fitting(checkpoint: str | Path, data: str | Path) -> Iterator[None]:
    """Say in one line that a model and its data do not fit, when it is built and filled inside.

    Raises:
        UserError: naming the data folder, or the dictionary in it that is damaged.
    """
    try:
        with dictionaries_named(data):
            yield
    except UserError:
        raise
    except (AssertionError, FileNotFoundError) as error:
        why = error or "no such dictionary"
        raise UserError(f"{data}: does not fit {checkpoint}: {why}") from error
    except RuntimeError as error:
        if "size mismatch" not in str(error) and "state_dict" not in str(error):
            raise
        raise UserError(
            f"{data}: its dictionaries do not fit {checkpoint}; give the data the model was "
            "trained on"
        ) from error
