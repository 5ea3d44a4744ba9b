"""``--keep-best-checkpoints`` by a score below zero, such as the value of a term.

fairseq finds what it has kept by the score in the file's name, and its pattern knows no minus
sign: nothing was found, so that every checkpoint better than all before it stayed.
"""

import functools

from fairseq import checkpoint_utils

_SCORE = r"(\d+\.?\d*)"


def install() -> None:
    """Wrap the function with which fairseq finds checkpoints. Harmless to repeat."""
    find = checkpoint_utils.checkpoint_paths
    if hasattr(find, "__wrapped__"):
        return

    @functools.wraps(find)
    def find_signed(path, pattern=r"checkpoint(\d+)\.pt", **kwargs):
        return find(path, pattern.replace(_SCORE, r"(-?\d+\.?\d*)"), **kwargs)

    checkpoint_utils.checkpoint_paths = find_signed
