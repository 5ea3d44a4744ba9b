"""Dictionaries of checkpoints: another vocabulary of the same size is refused.

A row of an embedding stands for a symbol of the dictionary, but a checkpoint of fairseq-fixed
0.12.3.1 does not tell which one. fairseq compares shapes alone. It scores, resumes and fine-tunes a
model with any ``dict.txt`` of as many symbols, without a message, and the rows then stand for other
words.

Text for an upstream report (none was found): "A checkpoint does not identify its dictionary.
fairseq-generate, fairseq-eval-lm, fairseq-interactive, --restore-file and --finetune-from-model
accept a data folder whose dict.txt has as many other symbols, or the same in another order.
Expected: the checkpoint records a hash of ``Dictionary.symbols``, and loading compares it."
"""

import logging
import os
import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.trainer import Trainer

from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.vocabulary import SPECIAL, say_unchecked, sha256_of_symbols
from diverse_mha.fairseq_fixes.patch import patch, patched

logger = logging.getLogger(__name__)

KEY = "dictionaries"  # in a checkpoint's extra_state
PADDING_WORD = "madeupword"  # prefix of fairseq-preprocess' padding entries
OTHER_DATA = "give the data that the model was trained on"

#: Role (source, target, label) -> hash, number of symbols and data folder of a dictionary.
Record = Mapping[str, Mapping[str, Any]]


@patch(Trainer, "state_dict")
def record_dictionaries(state_dict, trainer):
    """Return the content of a checkpoint, with the hash of each dictionary."""
    state = state_dict(trainer)
    state["extra_state"][KEY] = describe(trainer.task)
    return state


def describe(task: Any) -> Record:
    """Return the record of a task's dictionaries, in plain values."""
    options = getattr(task, "cfg", None) or getattr(task, "args", None)
    data = str(getattr(options, "data", "")).split(os.pathsep)[0]
    symbols = {
        role: getattr(getattr(task, f"{role}_dictionary", None), "symbols", None)
        for role in ("source", "target")
    }
    if isinstance(labels := getattr(task, "labels", None), list):  # sentence_classification
        symbols["label"] = [*SPECIAL, *labels]  # as in its dictionary, without padding
    return {
        role: {"sha256": sha256_of_symbols(names), "symbols": len(names), "data": data}
        for role, names in symbols.items()
        if isinstance(names, list) and all(isinstance(name, str) for name in names)
    }


def recorded(state: Mapping) -> Record:
    """Return the record in a checkpoint; empty if there is none, or if it is malformed."""
    record = (state.get("extra_state") or {}).get(KEY)
    return {
        role: entry
        for role, entry in (record.items() if isinstance(record, dict) else ())
        if isinstance(entry, dict)
        and isinstance(entry.get("sha256"), str)
        and re.fullmatch("[0-9a-f]{64}", entry["sha256"])
        and isinstance(entry.get("symbols"), int)
    }


class Read(NamedTuple):
    """What is kept of a checkpoint that fairseq has read."""

    cfg: Any
    dictionaries: Record


@contextmanager
def noted_in(reads: dict[str, Read]) -> Iterator[None]:
    """Context manager: note the checkpoints that fairseq reads in ``reads``, by path."""
    read = checkpoint_utils.load_checkpoint_to_cpu

    def noted(path, *args, **options) -> dict:
        state = read(path, *args, **options)
        reads[str(path)] = Read(state.get("cfg"), recorded(state))
        return state

    with patched(checkpoint_utils, "load_checkpoint_to_cpu", noted):
        yield


def plain_symbols(dictionary: Dictionary) -> list[str]:
    """Return the symbols of a dictionary without special tokens and padding."""
    own = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in own if not symbol.startswith(PADDING_WORD)]


def check_dictionaries(path: str, record: Record, task: Any, *cure: str | Option) -> bool:
    """Raise an error if a model was trained with other dictionaries than those of the task.

    Args:
        path: the checkpoint.
        record: result of :func:`recorded`. If it is empty, the dictionaries in the data folder that
            the checkpoint's options name are compared instead, if these can be told apart.
        task: fairseq's task, on the data with which the model is used.
        cure: end of the message; default: to give the data of the training.

    Returns:
        False if nothing could be compared, which has been logged.
    """
    now = describe(task)
    folder = next((entry["data"] for entry in now.values()), "")
    then = record or _in_recorded_folder(path, folder, now)
    if then is None:
        say_unchecked(path, folder)
        return False
    check_same(path, then, folder, now, *(cure or (OTHER_DATA,)))
    return True


def check_start_dictionaries(trainer: Any, option: str | None, path: str, record: Record) -> None:
    """Raise an error if a training starts from a checkpoint with other dictionaries.

    Rows may be given to other words on purpose (Zoph et al. 2016), with the task's option
    ``--allow-other-dictionary``; the difference is then logged.

    Args:
        trainer: fairseq's trainer.
        option: option that names the checkpoint, or None for the run's last checkpoint.
        path: the checkpoint.
        record: its record.
    """
    allowed = getattr(trainer.cfg.task, "allow_other_dictionary", False)
    other = Option("allow_other_dictionary", True)
    if allowed:
        cure = "allowed by ", other
    elif option is None:
        cure = "prepare that data again, or give another ", Option("save_dir")
    else:
        cure = (
            "prepare the text with the model's dictionaries (prepare-own.sh --like, or "
            "fairseq-preprocess --srcdict and --tgtdict), or, to train the rows for other words, "
            "add ", other, ", an option of this package's tasks",
        )  # fmt: skip
    try:
        check_dictionaries(path, record, trainer.task, *cure)
    except UserError as error:
        if not allowed:
            raise
        logger.warning("%s", error)


def check_same(path: str, then: Record, other: str, now: Record, *cure: str | Option) -> None:
    """Raise an error if the dictionaries of a checkpoint differ from those of something else.

    Args:
        path: the checkpoint.
        then: its record.
        other: name of what is compared, a data folder or a checkpoint.
        now: the record of ``other``.
        cure: end of the message.
    """
    joined = len({entry["sha256"] for entry in now.values()}) == 1
    for role in now:
        if role in then and then[role]["sha256"] != now[role]["sha256"]:
            name = "dictionary" if joined else f"{role} dictionary"
            has = "now has" if then[role].get("data") == other else "has"
            raise UserError(
                f"{path}: was trained with the {name} of {_text(then[role])}, but {other} {has} "
                f"another ({_text(now[role], folder=False)}), so that rows of the model would "
                "stand for other words; ",
                *cure,
            )


def _text(entry: Mapping, folder: bool = True) -> str:
    size = f"{entry['symbols']:,} symbols, SHA-256 {entry['sha256'][:8]}"
    # From a checkpoint: without control characters.
    place = "".join(x if x.isprintable() else "?" for x in str(entry.get("data")))
    return f"{place} ({size})" if folder else size


def _in_recorded_folder(path: str, folder: str, now: Record) -> Record | None:
    """Return a record of the data folder in a checkpoint's options, with the roles of ``now``.

    The languages may be others, so a role's entry is a dictionary that equals the one in ``now``,
    or else any. None: the folder is not there, is ``folder`` itself, or its dictionaries are newer
    than the checkpoint, so that they may have been prepared anew.
    """
    trained_on = _training_data(path)
    if trained_on is None or os.path.realpath(trained_on) == os.path.realpath(folder):
        return None
    record: dict[str, dict] = {}
    # A classifier's data has a folder for each field.
    for file in sorted([*trained_on.glob("dict*.txt"), *trained_on.glob("*/dict.txt")]):
        if file.stat().st_mtime > os.path.getmtime(path):
            return None
        try:
            dictionary = Dictionary.load(str(file))
        except Exception:  # fairseq raises plain Exception for a damaged file
            return None
        for names in (dictionary.symbols, [*SPECIAL, *plain_symbols(dictionary)]):
            entry = {"sha256": sha256_of_symbols(names), "symbols": len(names), "data": file}
            for role, other in now.items():
                if role not in record or entry["sha256"] == other["sha256"]:
                    record[role] = entry
    return record or None


def _options(group: Any) -> dict[str, Any]:
    return vars(group) if isinstance(group, Namespace) else group


def _training_data(path: str) -> Path | None:
    """Return the data folder in a checkpoint's options as saved, before any were overridden."""
    try:
        mmap = zipfile.is_zipfile(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
        options = state.get("cfg") or dict.fromkeys(("task", "checkpoint"), state["args"])
        groups = (options["task"], options.get("checkpoint") or {})
        task, saving = map(_options, groups)
        folder = Path(task["data"].split(os.pathsep)[0])
        # A relative path counts if the run is where its options say.
        run, place = saving.get("save_dir", ""), os.path.dirname(path)
        found = folder.is_absolute() or os.path.realpath(run) == os.path.realpath(place)
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError):
        return None  # the file was read in another way, such as from remote storage
    return folder if found and folder.is_dir() else None
