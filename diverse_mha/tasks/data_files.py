"""Checks binarised data. fairseq reports a damaged file only as an error in struct or numpy."""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, _code_to_dtype, infer_dataset_impl

from diverse_mha.common.errors import Option, UserError

_MAGIC = MMapIndexedDataset.Index._HDR_MAGIC
_HEADER = struct.Struct("<QBQ")  # version, code of the token type, number of sentences
CURE = "run fairseq-preprocess, or the script of data-prep/, again"


@contextmanager
def dictionaries_named(folder: str | Path) -> Iterator[None]:
    """Context manager: if its block fails, report the first unreadable dictionary of a folder."""
    try:
        yield
    except Exception as failure:  # fairseq raises plain Exception for invalid UTF-8
        if isinstance(failure, UserError) and failure.__cause__ is None:
            raise  # already a message for users, about something else
        for path in sorted(Path(folder).rglob("dict*.txt")):
            try:
                Dictionary.load(str(path))
            except Exception as error:
                reason = next(iter(str(error).splitlines()), "")
                raise UserError(f"{path}: not a fairseq dictionary ({reason}); {CURE}") from error
        raise


def check_split(folder: str | Path, split: str, combine: bool = False) -> None:
    """Raise an error for a split that is empty or truncated.

    All folders joined by ``:`` are checked. ``combine`` adds the splits SPLIT1, SPLIT2 and so on.
    Formats other than fairseq's mmap format are skipped.
    """
    for part in str(folder).split(os.pathsep):
        for index in sorted(Path(part).glob("*.*idx")):
            number = index.name.partition(".")[0].removeprefix(split)
            if index.name.startswith(split) and (not number or combine and number.isdecimal()):
                _check_index(index)


def check_form(folder: str | Path, form: str | None) -> None:
    """Raise an error if ``--dataset-impl`` is not the format of a folder's files."""
    files = (path for place in str(folder).split(os.pathsep) for path in Path(place).glob("*.idx"))
    found = (infer_dataset_impl(str(path.with_suffix(""))) for path in files)
    formats = {one for one in found if one is not None}
    formats |= {"lazy"} if "cached" in formats else set()
    given = form and not str(form).startswith("${")  # "${...}": not resolved by OmegaConf
    if given and formats and str(form) not in formats:
        raise UserError(
            Option("dataset_impl", form),
            f": the files of {folder} are {' or '.join(sorted(formats))}; leave it out",
        )


def splits_in(folder: str | Path) -> str:
    """Return the names of a data folder's splits, such as train or train.de-en, for a message."""
    folders = map(Path, str(folder).split(os.pathsep))
    files = (path for part in folders for path in part.glob("*.idx"))
    names = {path.stem.rpartition(".")[0] or path.stem for path in files}
    return ", ".join(sorted(names)) or "none"


def _check_index(index: Path) -> None:
    with open(index, "rb") as file:
        magic = file.read(len(_MAGIC))
        if magic and magic != _MAGIC and not _MAGIC.startswith(magic):
            return  # another format
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise UserError(f"{index}: cut off; {CURE}")
        _, code, count = _HEADER.unpack(header)
        start = file.tell()
        if index.stat().st_size < start + 12 * count or code not in _code_to_dtype:
            raise UserError(f"{index}: damaged or cut off; {CURE}")
        if not count:
            raise UserError(
                f"{index}: holds no sentence; name another split, or binarise a text with sentences"
            )
        file.seek(start + 4 * (count - 1))
        (last_size,) = struct.unpack("<i", file.read(4))
        file.seek(start + 12 * count - 8)
        (last_start,) = struct.unpack("<q", file.read(8))
    text = index.with_suffix(".bin")
    needed = last_start + last_size * np.dtype(_code_to_dtype[code]).itemsize
    size = text.stat().st_size if text.exists() else 0
    if size < needed:
        raise UserError(
            f"{text}: cut off, as it has {size:,} bytes and {index.name} expects {needed:,}; {CURE}"
        )
