"""Attention heads that differ usefully: four papers in one fairseq plugin.

``--user-dir diverse_mha`` imports this package, which registers every architecture, task,
criterion and optimiser. Without fairseq (absent, or not importable on this Python) the tensor
functions in ``diverse_mha.methods`` and ``diverse_mha.measures`` still work; ``diverse-mha
doctor`` says what is wrong.
"""

import logging
import os
import sys

from diverse_mha.common.errors import say_interrupted

__version__ = "0.1.0"

# fairseq compares the folder of --user-dir with this list, letter by letter, in every process.
if os.path.realpath(__path__[0]) not in __path__:
    __path__.append(os.path.realpath(__path__[0]))

# Whoever imports fairseq is told to install tensorboardX, for speech, on stderr: a second line
# beside each one of ours.
logging.getLogger("fairseq.tasks.text_to_speech").addFilter(
    lambda record: "install tensorboardX" not in record.getMessage()
)


def register() -> None:
    """Register everything with fairseq, and mend what needs mending there. Harmless to repeat."""
    from diverse_mha import criterions, models, optim, tasks  # noqa: F401


# While the package is imported for ``python -m diverse_mha.x``, the command's name is -m.
_command = os.path.basename(sys.argv[0] if sys.argv else "")
_ours = _command in ("-m", "diverse-mha")
if _ours or _command.startswith("fairseq-"):
    sys.excepthook = say_interrupted
# Our own commands register when they need to: most need neither fairseq nor torch to start.
if not _ours:
    try:
        import fairseq as _fairseq  # noqa: F401
    except Exception:  # whatever stops fairseq stops fairseq-train itself, loudly
        pass
    else:
        register()
