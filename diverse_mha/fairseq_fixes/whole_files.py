"""A checkpoint gets its name when it is whole.

fairseq-fixed 0.12.3.1 writes and copies checkpoints in place: a run that is killed meanwhile, or a
full disk, leaves a broken one where a whole one was.
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
    """fairseq's file functions, but a copy replaces its target once it is complete."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False):
        """Copy a file; remote ones as fairseq does."""
        if not PathManager.supports_rename(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite)
        with refusals_named(dst_path), open(src_path, "rb") as source, whole_file(dst_path) as file:
            shutil.copyfileobj(source, file, 2**20)
        return dst_path


@contextmanager
def refusals_named(path: str):
    """Turn what the operating system refuses while ``path`` is written into one line."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        refused = error if isinstance(error, OSError) else error.__context__
        if isinstance(refused, SystemExit | KeyboardInterrupt):
            raise refused from None  # torch's writer, left in between, raised an error of its own
        if not isinstance(refused, OSError):
            raise
        named = OSError(refused.errno, refused.strerror, path)
        raise OptionError(f"checkpoint not saved: {describe_os_error(named)}") from error


@in_place_of(checkpoint_utils, "torch_persistent_save")
def save_whole(save, obj, filename, async_write: bool = False):
    """Write a checkpoint, which replaces another of its name once it is complete."""
    if async_write or not PathManager.supports_rename(filename):
        return save(obj, filename, async_write)
    with refusals_named(filename), whole_file(filename) as file:
        torch.save(obj, file)


checkpoint_utils.PathManager = WholeCopies
