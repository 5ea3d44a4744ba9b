"""Attention heads that differ usefully: four papers in one fairseq plugin.

``--user-dir diverse_mha`` imports this package, which registers its architectures, tasks,
criterions and optimiser. Without fairseq the functions of ``diverse_mha.methods`` and
``diverse_mha.measures`` still work; ``diverse-mha doctor`` says what is wrong.
"""

import importlib
import logging
import os
from contextlib import contextmanager

from diverse_mha.common.on_import import after_import

__version__ = "0.1.0"

# fairseq looks for the folder of --user-dir in this list, by its name.
if os.path.realpath(__path__[0]) not in __path__:
    __path__.append(os.path.realpath(__path__[0]))

# fairseq asks on stderr for tensorboardX, which it needs for speech.
logging.getLogger("fairseq.tasks.text_to_speech").addFilter(
    lambda record: "install tensorboardX" not in record.getMessage()
)


def register() -> None:
    """Register everything with fairseq, and apply the fixes; may be called again."""
    from diverse_mha import criterions, models, optim, tasks  # noqa: F401


def load(path, data, *, cpu=False):
    """Load a checkpoint whose heads can be looked at; see ``diverse_mha.analysis.heads``.

    Args:
        path: a checkpoint of this package, or of fairseq's ``transformer`` or ``transformer_lm``.
        data: folder with the dictionaries it was trained with.
        cpu: do not use a GPU.

    Returns:
        A model whose ``run(sentences, target)`` returns attention weights, outputs, logits,
        queries, keys and values of every layer and head.
    """
    # By name: the analysis is above this module, and needs fairseq.
    heads = importlib.import_module("diverse_mha.analysis.heads")
    return heads.load(path, data, cpu=cpu)


@contextmanager
def _root_logger_kept():
    """Undo fairseq's ``logging.basicConfig(level=logging.DEBUG)`` (wav2vec2_classification.py).

    Without this every library prints its debug messages in the commands and to Python callers.
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


# fairseq takes seconds to import, and most commands start without it.
after_import("fairseq", register, _root_logger_kept)
