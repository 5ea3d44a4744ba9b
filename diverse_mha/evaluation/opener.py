"""Opens models whose heads are inspected, whatever library they come from.

Called by ``analyze``, ``prune`` and ``diverse_mha.load``. Only the library that a model needs is
imported.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def open_heads(paths: Sequence[str | Path], data: str | Path, *, cpu: bool = False) -> list[Any]:
    """Open models that are compared with each other, as ``analysis.protocol.Adapter``.

    Args:
        paths: checkpoints.
        data: folder of binarised data (fairseq-preprocess).
        cpu: do not use a GPU.
    """
    from diverse_mha.evaluation.adapter import open_checkpoints

    return open_checkpoints(paths, data, cpu=cpu)
