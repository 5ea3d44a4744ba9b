"""Attention heads that differ usefully: four papers in one fairseq plugin.

``--user-dir diverse_mha`` imports this package, which registers its architectures, tasks,
criterions and optimiser. Without fairseq the functions of ``diverse_mha.methods`` and
``diverse_mha.measures`` still work; ``diverse-mha doctor`` checks the installation.
"""

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from diverse_mha.common import start
from diverse_mha.common.on_import import after_import
from diverse_mha.fairseq_fixes import startup

if TYPE_CHECKING:  # all of it is imported late
    from torch import nn
    from transformers import PreTrainedTokenizerBase

    from diverse_mha.analysis.heads import HeadModel

__version__ = "0.1.0"

# fairseq looks for the path of --user-dir in this list.
if os.path.realpath(__path__[0]) not in __path__:
    __path__.append(os.path.realpath(__path__[0]))

# Hide fairseq's request to install tensorboardX, which only its speech tasks need.
logging.getLogger("fairseq.tasks.text_to_speech").addFilter(
    lambda record: "install tensorboardX" not in record.getMessage()
)


def register() -> None:
    """Register everything with fairseq, and apply the fixes; may be called again."""
    with start.uncollected():
        from diverse_mha import criterions, models, optim, tasks  # noqa: F401
    start.command_started()


def load(
    path: "str | Path | nn.Module",
    data: str | Path | None = None,
    *,
    cpu: bool = False,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
) -> "HeadModel":
    """Load a model to inspect its heads; see ``diverse_mha.analysis.heads``.

    Args:
        path: a checkpoint of this package, or of fairseq's ``transformer`` or ``transformer_lm``;
            without ``data``, a folder of Hugging Face transformers, or one of its models.
        data: folder with the dictionaries that a checkpoint was trained with.
        cpu: do not use a GPU.
        tokenizer: the tokenizer, if ``path`` is a model of transformers and not a folder.

    Returns:
        A model whose ``run(sentences, target)`` returns attention weights, outputs, logits,
        queries, keys and values of every layer and head.
    """
    # Imported late and by name: the analysis imports this module, and needs torch.
    heads = importlib.import_module("diverse_mha.analysis.heads")
    return heads.load(path, data, cpu=cpu, tokenizer=tokenizer)


@contextmanager
def _importing() -> Iterator[None]:
    """Context manager for the import of fairseq: make it faster, and restore the root logger.

    Otherwise every library prints its debug messages (fairseq's wav2vec2_classification.py calls
    ``logging.basicConfig``).
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        with startup.importing():
            yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


# Do not import fairseq here: that takes seconds, and most commands start without it.
startup.install()
after_import("fairseq", register, _importing)
