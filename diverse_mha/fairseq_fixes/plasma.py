"""Checkpoints of language models trained with ``--use-plasma-view``.

fairseq-fixed 0.12.3.1 evaluates them only with Plasma, which pyarrow 12 removed: ``NameError: name
'plasma' is not defined``.
"""

from fairseq.data import plasma_utils

from diverse_mha.fairseq_fixes.patch import patch


@patch(plasma_utils, "PlasmaView")
def keep_blocks_in_memory(view, array, *args, **kwargs):
    """Keep data in the process's memory if there is no Plasma."""
    if plasma_utils.PYARROW_AVAILABLE:
        return view(array, *args, **kwargs)
    return plasma_utils.PlasmaArray(array)
