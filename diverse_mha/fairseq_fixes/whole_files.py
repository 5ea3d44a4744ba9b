"""Writes a checkpoint whole or not at all.

fairseq-fixed 0.12.3.1 writes in place, so a killed run or a full disk leaves a broken checkpoint.
"""

import shutil
from contextlib import contextmanager

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from diverse_mha.common.errors import OptionError, describe_os_error
from diverse_mha.common.files import whole_file
from diverse_mha.fairseq_fixes.replacing import in_place_of


class WholeCopies(PathManager):
    """fairseq's file functions, with copies that replace their target once complete."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False):
        """Copy a file, a remote one as fairseq does."""
        if not PathManager.supports_rename(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite)
        with refusals_named(dst_path), open(src_path, "rb") as source, whole_file(dst_path) as file:
            shutil.copyfileobj(source, file, 2**20)
        return dst_path


@contextmanager
def refusals_named(path: str):
    """Turn an error of the operating system while ``path`` is written into one line."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        refused = error if isinstance(error, OSError) else error.__context__
        if isinstance(refused, SystemExit | KeyboardInterrupt):
            raise refused from None  # torch's writer raised an error of its own
        if not isinstance(refused, OSError):
            raise
        named = OSError(refused.errno, refused.strerror, path)
        raise OptionError(f"checkpoint not saved: {describe_os_error(named)}") from error


@in_place_of(checkpoint_utils, "torch_persistent_save")
def save_whole(save, obj, filename, async_write: bool = False):
    """Write a checkpoint that replaces an earlier one once it is complete."""
    if async_write or not PathManager.supports_rename(filename):
        return save(obj, filename, async_write)
    with refusals_named(filename), whole_file(filename) as file:
        torch.save(obj, file)


checkpoint_utils.PathManager = WholeCopies
