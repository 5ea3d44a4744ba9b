"""Attention heads that differ usefully: four papers in one fairseq plugin.

fairseq's ``--user-dir diverse_mha`` imports this package, which registers every architecture,
task and criterion. So does ``import diverse_mha`` in a program that has imported fairseq before;
one that has not calls :func:`register`. Without fairseq (absent, or not importable on this Python)
the tensor functions in ``diverse_mha.regularizers`` and ``diverse_mha.analysis`` still work;
``diverse-mha doctor`` says what is wrong.
"""

import sys

__version__ = "0.1.0"


def register() -> None:
    """Register everything with fairseq, and mend what needs mending there. Harmless to repeat."""
    from diverse_mha import compat, criterions, models, tasks  # noqa: F401


# The commands that need neither fairseq nor torch start without them.
if sys.modules.get("fairseq") is not None:
    register()
